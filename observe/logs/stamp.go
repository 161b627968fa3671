package logs

import "time"

// HeaderSize is the length of what stands before a piece's text: 30 bytes of time, 6 of stream, one of tag, a space
// after each.
const HeaderSize = 40

// Header is the beginning of a log line.
type Header [HeaderSize]byte

// SetPartial chooses the tag: P, or F.
func (h *Header) SetPartial(partial bool) {
	h[HeaderSize-2] = 'F'
	if partial {
		h[HeaderSize-2] = 'P'
	}
}

// Stamper makes headers. It formats a second once, which is most of the work. The zero value is ready; it belongs to one
// goroutine.
type Stamper struct {
	second int64
	text   [len("2006-01-02T15:04:05.")]byte
}

// Header is the header of an F piece of a stream, read at a time given in Unix nanoseconds (1970 to 2262).
func (s *Stamper) Header(nanos int64, stream Stream) Header {
	second, fraction := nanos/1e9, nanos%1e9
	if second != s.second || s.text[0] == 0 {
		s.second = second
		time.Unix(second, 0).UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	var h Header
	copy(h[:], s.text[:])
	for i := len(s.text) + 8; i >= len(s.text); i-- {
		h[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	copy(h[len(s.text)+9:], "Z ")
	copy(h[len(s.text)+11:], stream.String())
	copy(h[HeaderSize-3:], " F ")
	return h
}

// parseStamp reads a time, ours at a fraction of what it costs to read any.
func parseStamp(b []byte) (time.Time, bool) {
	if t, ok := parseOwn(b); ok {
		return t, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t, err == nil
}

// parseOwn reads a time as a Stamper writes it: 2006-01-02T15:04:05.000000000Z.
func parseOwn(b []byte) (time.Time, bool) {
	const form = "0000-00-00T00:00:00.000000000Z"
	if len(b) != len(form) {
		return time.Time{}, false
	}
	var fields [7]int
	field := 0
	for i := range len(form) {
		c := b[i]
		if form[i] != '0' {
			if c != form[i] {
				return time.Time{}, false
			}
			field++
			continue
		}
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
		fields[field] = fields[field]*10 + int(c-'0')
	}
	year, month, day, hour, minute, second := fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, fields[6], time.UTC)
	return t, t.Day() == day // the 30th of February is another day
}
