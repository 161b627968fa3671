package pump

import (
	"bytes"
	"testing"

	"reconciler.dev/reconciler/observe/logs"
)

// What is formatted reads back as it was, whatever bytes it is made of.
func FuzzAppendLine(f *testing.F) {
	for _, seed := range []string{"\n", "a", "one\ntwo\nthr", "\x00\xff\r\n\n", "2026-01-02T03:04:05.000000006Z stdout F x\n"} {
		f.Add([]byte(seed), 1)
	}
	f.Add(bytes.Repeat([]byte("x"), 100), 700)
	f.Fuzz(func(t *testing.T, data []byte, times int) {
		data = bytes.Repeat(data, max(1, min(times, 64<<10/max(1, len(data)))))
		var s logs.Stamper
		head := s.Header(1_767_323_045_000_000_006, logs.Stderr)
		var got []byte
		for rest := data; len(rest) > 0; {
			line, took, ended := appendLine(nil, &head, rest)
			if took < 1 || took > len(rest) || len(line) > maxLineSize || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
				t.Fatalf("took %d of %d for a line of %d bytes", took, len(rest), len(line))
			}
			p, err := logs.Parse(line[:len(line)-1])
			if err != nil || p.Stream != logs.Stderr || p.Partial == ended {
				t.Fatalf("%q: %+v, %v", line, p, err)
			}
			got = append(got, p.Text...)
			if ended {
				got = append(got, '\n')
			}
			rest = rest[took:]
		}
		if !bytes.Equal(got, data) {
			t.Fatalf("%q became %q", data, got)
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	var s logs.Stamper
	head := s.Header(1_767_323_045_000_000_006, logs.Stdout)
	data := bytes.Repeat(floodLine(0), 64<<10/len(floodLine(0)))
	buf := make([]byte, 0, 2*len(data))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		buf = buf[:0]
		for rest := data; len(rest) > 0; {
			var took int
			buf, took, _ = appendLine(buf, &head, rest)
			rest = rest[took:]
		}
	}
}
