package probe

import (
	"bytes"
	"io"
	"testing"
)

// pieces reads its data in pieces whose lengths the cuts give, over and over.
type pieces struct {
	data, cuts []byte
	at         int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := len(p.data)
	if len(p.cuts) > 0 {
		n = int(p.cuts[p.at%len(p.cuts)]) + 1
		p.at++
	}
	n = copy(b, p.data[:min(n, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// However a stream is cut into reads, what is expected is found when it is in the bytes that are read, and only then.
func FuzzAwait(f *testing.F) {
	f.Add([]byte("220 ready\r\n"), []byte("ready"), []byte{0})
	f.Add([]byte("aaaaab"), []byte("aab"), []byte{1, 0})
	f.Add(bytes.Repeat([]byte("xy"), 3000), []byte("yxz"), []byte{255, 7})
	f.Add(append(bytes.Repeat([]byte("x"), 4095), "ready"...), []byte("ready"), []byte{255})
	f.Add([]byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, data, expect, cuts []byte) {
		if len(data) > ReplyLimit/2 {
			return // the last read may go over the limit
		}
		err := await(&pieces{data: data, cuts: cuts}, expect, false)
		if found, want := err == nil, len(data) > 0 && bytes.Contains(data, expect); found != want {
			t.Errorf("found %v, want %v, in %d bytes", found, want, len(data))
		}
	})
}
