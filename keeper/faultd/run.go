package faultd

import (
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

func runFlags(fs *flag.FlagSet) func(*process) int {
	var s server
	fs.StringVar(&s.addr, "addr", "", "listen on this TCP `address` and answer HTTP 200")
	fs.BoolVar(&s.portless, "portless", false, "go on without the port when another has it, as many games do")
	fs.DurationVar(&s.startDelay, "start-delay", 0, "wait before listening and before the ready line")
	fs.StringVar(&s.ready, "ready", "ready", "the ready `line`")
	fs.DurationVar(&s.stopDelay, "stop-delay", 0, "take this long to stop")
	fs.IntVar(&s.stopCode, "stop-code", 0, "exit with this `code` after a graceful stop")
	fs.BoolVar(&s.reraise, "reraise", false, "after a graceful stop, die of the signal that asked for it")
	fs.BoolVar(&s.notify, "notify", false, "after the ready line, say READY=1 on $NOTIFY_SOCKET as sd_notify(3) does")
	fs.DurationVar(&s.watchdog, "watchdog", 0, "after the ready line, say WATCHDOG=1 this often")
	fs.IntVar(&s.signs, "signs", 0, "say that only so many `times`; 0 = without an end")
	fs.DurationVar(&s.tick, "tick", 0, "write a numbered line this often")
	fs.StringVar(&s.config, "config", "", "print this `file` at the start, and on SIGHUP")
	return func(*process) int { return s.run() }
}

// server is what a good workload does.
type server struct {
	addr, ready, config         string
	startDelay, stopDelay, tick time.Duration
	watchdog                    time.Duration
	stopCode, signs             int
	reraise, notify, portless   bool
}

func (s *server) run() int {
	stop := caught(syscall.SIGTERM, syscall.SIGINT)
	if s.config != "" {
		go s.reload(caught(syscall.SIGHUP))
		s.show("config")
	}
	time.Sleep(s.startDelay)
	if s.addr != "" {
		switch l, err := net.Listen("tcp", s.addr); {
		case err == nil:
			say("listening %s", l.Addr())
			go http.Serve(l, http.HandlerFunc(answerOK))
		case s.portless:
			say("no port: %v", err)
		default:
			return fail(err)
		}
	}
	say("%s", s.ready)
	if s.notify {
		if err := notify("READY=1"); err != nil {
			return fail(err)
		}
	}
	if s.watchdog > 0 {
		go s.live()
	}
	if s.tick > 0 {
		go count(s.tick)
	}
	sig := (<-stop).(syscall.Signal)
	say("stopping on %s", sig)
	time.Sleep(s.stopDelay)
	if s.reraise {
		return die(sig)
	}
	say("stopped")
	return s.stopCode
}

func (s *server) reload(hangup <-chan os.Signal) {
	for range hangup {
		s.show("reloaded")
	}
}

func (s *server) show(word string) {
	b, err := os.ReadFile(s.config)
	if err != nil {
		say("%s failed: %v", word, err)
		return
	}
	say("%s %q", word, trimNewline(string(b)))
}

// live says that it lives, for as long as it is to.
func (s *server) live() {
	for i := 0; s.signs == 0 || i < s.signs; i++ {
		if err := notify("WATCHDOG=1"); err != nil {
			say("no sign of life: %v", err)
		}
		time.Sleep(s.watchdog)
	}
}

func count(every time.Duration) {
	for i := 0; ; i++ {
		say("tick %d", i)
		time.Sleep(every)
	}
}

func answerOK(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }

func holdFlags(fs *flag.FlagSet) func(*process) int {
	var ignored signalList
	fs.Var(&ignored, "ignore", "`list` of signals to ignore")
	quiet := fs.Bool("quiet", false, "say nothing")
	return func(*process) int {
		ignored.ignore()
		if !*quiet {
			say("holding pid=%d ppid=%d", os.Getpid(), os.Getppid())
		}
		return forever()
	}
}

// notify sends a datagram to where the service manager listens (sd_notify(3)).
func notify(text string) error {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return errors.Join(err, conn.Close())
}
