package pump

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// playRole is what this test binary does as another process.
func playRole(role string) int {
	switch role {
	case "block":
		return playBlock(number("PUMP_TEST_SIZE"), number("PUMP_TEST_TOTAL"), number("PUMP_TEST_RATE"))
	case "flood":
		return playFlood(number("PUMP_TEST_RATE"), number("PUMP_TEST_SIZE"))
	case "pump":
		return playPump(os.Getenv("PUMP_TEST_DIR"))
	}
	fmt.Fprintf(os.Stderr, "unknown role %q\n", role)
	return 2
}

func number(variable string) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", variable, err)
		os.Exit(2)
	}
	return n
}

// playFlood writes numbered lines to stdout, and every hundredth to stderr as well, at a rate in bytes a second until
// stdin ends, but leastFlood lines at the least: in blocks of size bytes whose ends are no lines' ends, or with size 0
// in one write a line. It then tells on descriptor 3 how many lines that were.
func playFlood(rate, size int) int {
	var stop atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	var block []byte
	began, sent := time.Now(), 0
	put := func(b []byte) bool {
		if _, err := os.Stdout.Write(b); err != nil {
			fmt.Fprintln(os.Stderr, "flood:", err)
			return false
		}
		sent += len(b)
		if ahead := time.Duration(float64(sent)/float64(rate)*1e9) - time.Since(began); ahead > time.Millisecond {
			time.Sleep(ahead) // the pace is the point
		}
		return true
	}
	lines := 0
	for ; lines < leastFlood || !stop.Load(); lines++ {
		block = append(block, floodLine(lines)...)
		if lines%100 == 0 {
			if _, err := os.Stderr.Write(floodLine(lines / 100)); err != nil {
				return 1
			}
		}
		for len(block) > 0 && (size == 0 || len(block) >= size) {
			n := len(block)
			if size > 0 {
				n = size
			}
			if !put(block[:n]) {
				return 1
			}
			block = append(block[:0], block[n:]...)
		}
	}
	if len(block) > 0 && !put(block) {
		return 1
	}
	if _, err := fmt.Fprint(os.NewFile(3, "count"), lines); err != nil {
		return 1
	}
	return 0
}

const leastFlood = 20_000

var padding = bytes.Repeat([]byte("0123456789"), 12)

func floodLine(n int) []byte {
	return fmt.Appendf(nil, "flood %012d %s\n", n, padding[:60+n%50])
}

// playPump pumps the run of a rig's folder until it is killed. It says on stdout that it has begun.
func playPump(dir string) int {
	loop, err := NewLoop()
	if err == nil {
		err = pumpFolder(context.Background(), dir, loop, func(*Pump) { fmt.Println("pumping") })
	}
	fmt.Fprintln(os.Stderr, "pump:", err)
	return 1
}

func pumpFolder(ctx context.Context, dir string, loop *Loop, begun func(*Pump)) error {
	p, err := New(Config{
		Dir: filepath.Join(dir, "logs"), PoolDirs: []string{filepath.Join(dir, "pool")}, Loop: loop,
		ScopeBudget: 1 << 40, HostBudget: 1 << 40, fileSize: 300_000, patience: endless,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- loop.Run(ctx) }()
	go func() { ended <- p.Run(ctx) }()
	out, err := OpenReader(filepath.Join(dir, "stdout"))
	if err != nil {
		return err
	}
	errs, err := OpenReader(filepath.Join(dir, "stderr"))
	if err != nil {
		return err
	}
	if err := p.Attach(testRun, out, errs); err != nil {
		return err
	}
	begun(p)
	for range 2 {
		if err := <-ended; err != nil {
			return err
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	return loop.Close()
}
