package faultd

import (
	"flag"
	"os"
	"runtime"
	"syscall"
)

func memFlags(fs *flag.FlagSet) func(*process) int {
	mib := fs.Int("mb", 256, "MiB to hold")
	return func(*process) int {
		stop := caught(syscall.SIGTERM)
		held := make([]byte, *mib<<20)
		for i := 0; i < len(held); i += os.Getpagesize() {
			held[i] = 1
		}
		say("holding %d MiB", *mib)
		<-stop
		runtime.KeepAlive(held)
		return 0
	}
}

func spinFlags(fs *flag.FlagSet) func(*process) int {
	n := fs.Int("cpus", 1, "threads that spin")
	return func(*process) int {
		stop := caught(syscall.SIGTERM)
		runtime.GOMAXPROCS(*n + 1) // one for the signal
		for range *n {
			go func() {
				for {
				}
			}()
		}
		say("spinning")
		<-stop
		return 0
	}
}
