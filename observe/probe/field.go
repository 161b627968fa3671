package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NumberAt finds a number of people in a JSON document (RFC 8259): field is the names of the members that lead to it, joined by dots.
// It must be an integer from 0 to 1,000,000. The document may be of anybody; an error holds nothing of it.
func NumberAt(document []byte, field string) (int, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || !json.Valid(document) { // a decoder stops behind the first value
		return 0, errors.New("the answer is no JSON document")
	}
	for name := range strings.SplitSeq(field, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("the answer has no field %s", field)
		}
		if value, ok = object[name]; !ok {
			return 0, fmt.Errorf("the answer has no field %s", field)
		}
	}
	number, ok := value.(json.Number)
	if !ok {
		return 0, fmt.Errorf("field %s of the answer is no number", field)
	}
	n, err := strconv.ParseUint(number.String(), 10, 32)
	if err != nil || n > maxPlayers {
		return 0, fmt.Errorf("field %s of the answer is no number of people", field)
	}
	return int(n), nil
}

// maxPlayers is more than any server holds.
const maxPlayers = 1_000_000
