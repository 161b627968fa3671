// Command bare is what reconciler is measured against: a loop of fork and exec that supervises nothing but the death of its
// children.
//
//	bare start WORKLOAD FIFO N          starts N workloads, and again each that ends; one more for each line it reads
//	bare nothing                        ends at once
//	bare log FILE WORKLOAD FIFO BYTES SIZE   starts one that writes, and copies what it writes to FILE
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch args[0] {
	case "nothing":
		return nil
	case "log":
		return copyLog(args[1], args[2], args[3], args[4:])
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	return supervise(&parent{workload: args[1], fifo: args[2], names: map[int]string{}}, n)
}

// parent starts workloads. One goroutine starts at a time.
type parent struct {
	workload, fifo string
	null           uintptr
	names          map[int]string // by process number
}

func (p *parent) start(name string) error {
	pid, err := fork(p.workload, []string{p.fifo, name}, p.null)
	if err != nil {
		return err
	}
	p.names[pid] = name
	return nil
}

func fork(workload string, args []string, stdout uintptr) (int, error) {
	return syscall.ForkExec(workload, append([]string{workload}, args...), &syscall.ProcAttr{
		Files: []uintptr{0, stdout, stdout},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func supervise(p *parent, n int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	p.null = null.Fd()
	for i := range n {
		if err := p.start(fmt.Sprintf("w%d", i)); err != nil {
			return err
		}
	}
	deaths, more := make(chan int), make(chan string)
	go reap(deaths)
	go ask(more)
	for {
		select {
		case pid := <-deaths:
			err = p.start(p.names[pid])
			delete(p.names, pid)
		case name := <-more:
			err = p.start(name)
		}
		if err != nil {
			return err
		}
	}
}

func reap(deaths chan<- int) {
	for {
		if pid, err := syscall.Wait4(-1, nil, 0, nil); err == nil {
			deaths <- pid
		}
	}
}

func ask(more chan<- string) {
	sc := bufio.NewScanner(os.Stdin)
	for sc.Scan() {
		more <- sc.Text()
	}
}

func copyLog(file, workload, fifo string, args []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := fork(workload, append([]string{fifo, "log"}, args...), w.Fd()); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	// Neither end says that it could do without a copy in our memory: a log is looked at on its way.
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return err
}
