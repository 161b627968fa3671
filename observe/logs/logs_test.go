package logs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, c := range []struct {
		line string
		want Piece
	}{
		{"2026-01-02T03:04:05.000000006Z stdout F hello", Piece{at, Stdout, false, []byte("hello")}},
		{"2026-01-02T03:04:05.000000006Z stderr P > ", Piece{at, Stderr, true, []byte("> ")}},
		{"2026-01-02T03:04:05.000000006Z stdout F ", Piece{at, Stdout, false, []byte{}}},
		{"2026-01-02T05:04:05.000000006+02:00 stdout F x y", Piece{at, Stdout, false, []byte("x y")}},
		{"2026-01-02T03:04:05.000000006Z stdout F \x00\xff", Piece{at, Stdout, false, []byte("\x00\xff")}},
	} {
		got, err := Parse([]byte(c.line))
		if err != nil {
			t.Errorf("Parse(%q): %v", c.line, err)
			continue
		}
		if !got.Time.Equal(c.want.Time) || got.Stream != c.want.Stream || got.Partial != c.want.Partial || !bytes.Equal(got.Text, c.want.Text) {
			t.Errorf("Parse(%q) = %+v, want %+v", c.line, got, c.want)
		}
	}
}

// badLines are lines that Parse refuses.
var badLines = []string{
	"", " ", "hello", "2026-01-02T03:04:05.000000006Z", "2026-01-02T03:04:05.000000006Z stdout", "2026-01-02T03:04:05.000000006Z stdout F",
	"2026-01-02T03:04:05.000000006Z stdin F x", "2026-01-02T03:04:05.000000006Z stdout X x", "2026-01-02T03:04:05.000000006Z stdout FF x",
	"2026-02-30T03:04:05.000000006Z stdout F x", "2026-01-02T24:04:05.000000006Z stdout F x", "2026-00-02T03:04:05.000000006Z stdout F x",
	"2026-01-02T03:04:60.000000006Z stdout F x", "2026-01-00T03:04:05.000000006Z stdout F x", "2026-01-02 stdout F x", "yesterday stdout F x", "2026-01-02T03:04:05.000000006Z  stdout F x", strings.Repeat("\x00", 64),
}

func TestParseRefuses(t *testing.T) {
	for _, line := range badLines {
		if p, err := Parse([]byte(line)); !errors.Is(err, ErrFormat) {
			t.Errorf("Parse(%q) = %+v, %v, want ErrFormat", line, p, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range badLines {
		f.Add([]byte(line))
	}
	f.Add([]byte("2026-01-02T03:04:05.000000006Z stdout F hello"))
	f.Add([]byte("2026-01-02T03:04:05.000000006Z stderr P \x1b[1m>\xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := Parse(line)
		if err != nil {
			return
		}
		stamp, _, _ := bytes.Cut(line, []byte(" "))
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err != nil || !at.Equal(p.Time) {
			t.Fatalf("%q is %v, read as %v: %v", stamp, at, p.Time, err)
		}
		if p.Stream != Stdout && p.Stream != Stderr {
			t.Fatalf("stream %d", p.Stream)
		}
		if year := p.Time.UTC().Year(); year < 1970 || year > 2261 {
			return // the stamper's times are those of the clock
		}
		var s Stamper
		h := s.Header(p.Time.UnixNano(), p.Stream)
		h.SetPartial(p.Partial)
		again, err := Parse(append(h[:], p.Text...))
		if err != nil || !again.Time.Equal(p.Time) || again.Stream != p.Stream || again.Partial != p.Partial || !bytes.Equal(again.Text, p.Text) {
			t.Fatalf("written again: %+v, %v; was %+v", again, err, p)
		}
	})
}

func TestStamper(t *testing.T) {
	var s Stamper
	for _, nanos := range []int64{0, 1, 999_999_999, 1_000_000_000, 1_767_323_045_000_000_006, 1_767_323_045_999_999_999, 1_767_323_046_000_000_000} {
		h := s.Header(nanos, Stderr)
		want := time.Unix(0, nanos).UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " stderr F "
		if string(h[:]) != want {
			t.Errorf("Header(%d) = %q, want %q", nanos, h[:], want)
		}
	}
}

func TestFileNames(t *testing.T) {
	for _, c := range []struct {
		number int64
		index  int
		name   string
	}{{1, 0, "1.log"}, {12, 3, "12.log.3"}} {
		if got := FileName(c.number, c.index); got != c.name {
			t.Errorf("FileName(%d, %d) = %q, want %q", c.number, c.index, got, c.name)
		}
		number, index, ok := ParseFileName(c.name)
		if !ok || number != c.number || index != c.index {
			t.Errorf("ParseFileName(%q) = %d, %d, %v", c.name, number, index, ok)
		}
	}
	for _, name := range []string{"", ".log", "0.log", "-1.log", "+1.log", "01.log", "1.log.0", "1.log.01", "1.log.", "1.logx", "1.log.x", "x.log", "1.log.1.log"} {
		if number, index, ok := ParseFileName(name); ok {
			t.Errorf("ParseFileName(%q) = %d, %d", name, number, index)
		}
	}
}

func TestReadTail(t *testing.T) {
	const at = "2026-01-02T03:04:05.000000006Z "
	long := strings.Repeat("x", MaxPiece)
	for _, c := range []struct {
		name, file   string
		cut          int // bytes after the last whole line
		stdout, stde bool
	}{
		{"empty", "", 0, false, false},
		{"whole", at + "stdout F a\n", 0, false, false},
		{"open", at + "stdout F a\n" + at + "stdout P b\n", 0, true, false},
		{"open behind", at + "stderr P b\n" + strings.Repeat(at+"stdout F "+long+"\n", 20), 0, false, true},
		{"cut off", at + "stdout P a\n" + at + "stdout F", len(at + "stdout F"), true, false},
		{"no line", strings.Repeat("\x00", 200_000), 200_000, false, false},
		{"zeros behind", at + "stderr P a\n" + strings.Repeat("\x00", 200_000), 200_000, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadTail(strings.NewReader(c.file), int64(len(c.file)))
			if err != nil {
				t.Fatal(err)
			}
			want := Tail{End: int64(len(c.file) - c.cut), Open: [3]bool{Stdout: c.stdout, Stderr: c.stde}}
			want.Seen = [3]bool{Stdout: strings.Contains(c.file, " stdout "), Stderr: strings.Contains(c.file, " stderr ")}
			if got != want {
				t.Errorf("ReadTail = %+v, want %+v", got, want)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	line := []byte("2026-01-02T03:04:05.000000006Z stdout F " + strings.Repeat("x", 99))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStamper(b *testing.B) {
	var s Stamper
	nanos := time.Now().UnixNano()
	for b.Loop() {
		nanos += 1000
		s.Header(nanos, Stdout)
	}
}

// writeFile makes a log file of lines like "out F text" or "err P text"; each is a millisecond later than the one before.
func writeFile(t testing.TB, dir string, number int64, index int, lines ...string) {
	t.Helper()
	folder := filepath.Join(dir, testScope)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, FileName(number, index)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(format(lines...)); err != nil {
		t.Fatal(err)
	}
}

const testScope = "default.town.openttd"

var testClock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func format(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		testClock = testClock.Add(time.Millisecond)
		b.WriteString(testClock.Format("2006-01-02T15:04:05.000000000Z07:00") + " std" + line + "\n")
	}
	return b.String()
}
