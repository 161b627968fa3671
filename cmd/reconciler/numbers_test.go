package main

import (
	"fmt"
	"os"
	"runtime"
)

// The numbers of processes are long between these; a few thousand more are to come before they begin anew.
const (
	longNumber = 10_000
	roomAbove  = 5_000
)

// longNumbers makes and ends threads, which have numbers of the same kind, until the next number is a long one.
func longNumbers() error {
	for {
		last, most, err := numbers()
		if err != nil || last >= longNumber && last < most-roomAbove || most < longNumber+2*roomAbove {
			return err
		}
		for range 100 {
			made := make(chan struct{})
			go func() {
				runtime.LockOSThread() // it is never unlocked: the thread ends
				close(made)
			}()
			<-made
		}
	}
}

// numbers is the last number that this pid namespace has given, and the most that there are.
func numbers() (last, most int, err error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, 0, err
	}
	limit, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, 0, err
	}
	var skip string
	if _, err := fmt.Sscan(string(load), &skip, &skip, &skip, &skip, &last); err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(limit), &most)
	return last, most, err
}
