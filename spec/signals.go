package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// signals are the names that Linux knows, with their numbers (signal(7), the values of x86 and arm).
var signals = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
	"SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
	"SIGSTKFLT": 16, "SIGCHLD": 17, "SIGCONT": 18, "SIGSTOP": 19, "SIGTSTP": 20, "SIGTTIN": 21, "SIGTTOU": 22,
	"SIGURG": 23, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGVTALRM": 26, "SIGPROF": 27, "SIGWINCH": 28, "SIGIO": 29,
	"SIGPWR": 30, "SIGSYS": 31,
}

// SignalNumber is the number of a signal that a stop step may send.
func SignalNumber(name string) (int, bool) {
	n, ok := signals[name]
	return n, ok && name != "SIGKILL" && name != "SIGSTOP"
}

// SignalName is the name of a signal; real-time signals have none and are numbered.
func SignalName(number int) string {
	for name, n := range signals {
		if n == number {
			return name
		}
	}
	return "SIG" + strconv.Itoa(number)
}

func checkSignal(s string) string {
	if _, ok := signals[s]; !ok {
		return "must be a signal that Linux knows, such as 'SIGTERM'"
	}
	return ""
}

func checkStopSignal(s string) string {
	if s == "SIGKILL" || s == "SIGSTOP" {
		return "must not be 'SIGKILL' or 'SIGSTOP': the kill of what is left always follows the last step by itself"
	}
	return checkSignal(s)
}

// signalPattern matches the names; a stop step may send all but two.
func signalPattern(stop bool) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(signals)) {
		if _, ok := SignalNumber(name); ok || !stop {
			names = append(names, strings.TrimPrefix(name, "SIG"))
		}
	}
	return "^SIG(" + strings.Join(names, "|") + ")$"
}
