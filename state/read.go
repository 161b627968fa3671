package state

import "os"

// readTries bounds the reading of a record that is replaced again and again.
const readTries = 100

// ReadRecord reads a scope's record beside its writer, which may replace it at the same time and write the next one into the file that
// was opened: what is not whole is read again by its name.
func ReadRecord(path string) (*Record, error) {
	for try := 1; ; try++ {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r, err := DecodeRecord(file)
		if err == nil || try == readTries {
			return r, err
		}
	}
}
