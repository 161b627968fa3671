package spec

import "encoding/json"

// quoteJSON is s as a JSON string.
func quoteJSON(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return b
}
