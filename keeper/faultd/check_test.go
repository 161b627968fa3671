package faultd

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// floodLines returns lines with these numbers.
func floodLines(numbers ...int) string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&b, "flood %012d xxxxx\n", n)
	}
	return b.String()
}

func TestCheckFlood(t *testing.T) {
	five := floodLines(0, 1, 2, 3, 4)
	cri := func(tag, text string) string {
		return "2026-01-02T03:04:05.678901234Z stdout " + tag + " " + text + "\n"
	}
	one := strings.TrimSuffix(floodLines(1), "\n")
	for _, c := range []struct {
		name, text string
		want       FloodReport
	}{
		{"sound", five, FloodReport{Lines: 5, Highest: 4}},
		{"from the middle", floodLines(7, 8), FloodReport{Lines: 2, First: 7, Highest: 8}},
		{"with its summary", five + "flooded lines=5 bytes=125 seconds=0.10\n", FloodReport{Lines: 5, Highest: 4}},
		{"lost", floodLines(0, 1, 4, 6), FloodReport{Lines: 4, Highest: 6, Lost: 3}},
		{"many lost", floodLines(0, 5_000_000), FloodReport{Lines: 2, Highest: 5_000_000, Lost: 4_999_999}},
		{"doubled", floodLines(0, 1, 1, 2, 0), FloodReport{Lines: 5, Highest: 2, Doubled: 2}},
		{"swapped", floodLines(0, 2, 1, 3), FloodReport{Lines: 4, Highest: 3, Swapped: 1}},
		{"before the first", floodLines(5, 4, 6), FloodReport{Lines: 3, First: 5, Highest: 6, Swapped: 1}},
		{"torn in two", strings.Replace(five, "0002 x", "0002\n x", 1), FloodReport{Lines: 4, Highest: 4, Lost: 1, Torn: 2}},
		{"two in one", strings.Replace(five, "x\nflood 000000000003", "xflood 000000000003", 1), FloodReport{Lines: 3, Highest: 4, Lost: 2, Torn: 1}},
		{"shorter", strings.Replace(five, "2 xxxxx", "2 xxxx", 1), FloodReport{Lines: 4, Highest: 4, Lost: 1, Torn: 1}},
		{"strange", strings.Replace(five, "2 xxxxx", "2 xxyxx", 1), FloodReport{Lines: 4, Highest: 4, Lost: 1, Torn: 1}},
		{"empty line", floodLines(0) + "\n" + floodLines(1), FloodReport{Lines: 2, Highest: 1, Torn: 1}},
		{"unfinished", five + "flood 0000", FloodReport{Lines: 5, Highest: 4, Unfinished: true}},
		{"CRI", cri("F", strings.TrimSuffix(floodLines(0), "\n")) + cri("P", one[:9]) + cri("F", one[9:]), FloodReport{Lines: 2, Highest: 1}},
		{"CRI without its end", cri("F", strings.TrimSuffix(floodLines(0), "\n")) + cri("P", one[:9]), FloodReport{Lines: 1, Unfinished: true}},
	} {
		got, err := CheckFlood(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		faulty := c.want.Lost+c.want.Doubled+c.want.Swapped+c.want.Torn > 0
		if (got.Err() != nil) != faulty || (len(got.Faults) > 0) != faulty {
			t.Errorf("%s: Err is %v, faults %q", c.name, got.Err(), got.Faults)
		}
		got.Faults = nil
		if fmt.Sprint(*got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, *got, c.want)
		}
	}
	if report, err := CheckFlood(strings.NewReader("")); err != nil || report.Err() == nil {
		t.Errorf("nothing at all: %v, %v", report.Err(), err)
	}
}

func FuzzCheckFlood(f *testing.F) {
	f.Add([]byte(floodLines(0, 1, 3, 2)))
	f.Add([]byte("2026-01-02T03:04:05Z stderr P flood 0000\n"))
	f.Add(bytes.Repeat([]byte("x"), 300<<10))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := CheckFlood(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines > 0 && r.Lines+r.Lost-r.Doubled != r.Highest-r.First+1 && r.Swapped == 0 {
			t.Fatalf("the numbers do not add up: %+v", r)
		}
	})
}

func FuzzRCON(f *testing.F) {
	f.Add(rconPacket{id: 1, kind: rconLogin, body: "secret"}.bytes())
	f.Add([]byte{10, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readRCON(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := p.bytes(); !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %x", b, again)
		}
	})
}
