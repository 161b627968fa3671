package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/manifests/examples"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

// What README and guide show is run as it stands, command after command, and must print what is shown.
//
// A block of the language console holds commands, each after "$ ", and below a command what it prints: all of it, but for
// ages and times, which are compared as such; "…" stands for any text within a line, and alone on a line for any
// lines. A command whose output begins with "error: " must fail, every other must not. One that goes on by itself (run,
// and what follows or watches) is ended when it has printed what is shown. A block of the language yaml with a file's name
// behind it is written to that file.
func TestWalkthroughs(t *testing.T) {
	if !proctest.CgroupsWritable() {
		t.Skip("the pages show a host on which runs have cgroups")
	}
	for _, page := range []string{"README.md", "docs/guide.md", "docs/manifests.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			w := newWalk(t)
			ran := 0
			for _, b := range blocksOf(t, page) {
				switch {
				case b.lang == "console":
					ran += w.session(fmt.Sprintf("%s:%d", page, b.line), b.lines)
				case b.lang == "sh" || b.lang == "bash" || b.lang == "shell":
					t.Errorf("%s:%d: commands stand in console blocks, where they are run", page, b.line)
				case b.args != "":
					w.write(b.args, strings.Join(b.lines, "\n")+"\n")
				}
			}
			if ran < 8 {
				t.Errorf("only %d commands were run", ran)
			}
		})
	}
}

// walk is one reader's way through one page: a directory, an environment and what was started.
type walk struct {
	t     *testing.T
	dir   string
	env   []string
	ports *strings.Replacer // the page's fixed ports, by free ones
	shown *strings.Replacer // and back
	// background holds what goes on until the end.
	background []*session
}

// fixedPorts are those that the pages and the echo example name.
var fixedPorts = []string{"7007", "7008", "7009", "9640"}

// newWalk makes a copy of the project that shares its files, and nothing that the machine has of ours (EN-12).
func newWalk(t *testing.T) *walk {
	t.Helper()
	dir := proctest.Place(t) // t.TempDir is too long for the sockets below it
	w := &walk{t: t, dir: dir}
	t.Cleanup(w.end)
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Makefile", "go.mod", "go.sum", "cmd", "keeper", "manifests", "metrics", "observe", "reconcile", "spec", "state"} {
		if err := os.Symlink(filepath.Join(top, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var to, back []string
	for _, p := range fixedPorts {
		free := strconv.Itoa(freePort(t, "tcp"))
		to, back = append(to, p, free), append(back, free, p)
	}
	w.ports, w.shown = strings.NewReplacer(to...), strings.NewReplacer(back...)
	// Nor what a make that runs the tests tells those below it.
	ours := regexp.MustCompile(`^(RECONCILER_|XDG_|GIT_|MAKE|MFLAGS=|GNUMAKEFLAGS=|VERSION=|FUZZTIME=|PATIENCE=|GO=)`)
	w.env = slices.DeleteFunc(os.Environ(), ours.MatchString)
	w.env = append(w.env, "RECONCILER_STATE_DIR="+filepath.Join(dir, "home-state"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	// What `make run` would write, with a port that is free.
	echo, _ := examples.Get(examples.Default)
	w.write("demo/manifests/echo.yaml", string(echo))
	return w
}

// end ends what the page has started: what goes on by an interrupt, and what that leaves running by a shutdown.
func (w *walk) end() {
	for _, s := range w.background {
		s.kill()
	}
	for _, state := range []string{"home-state", "demo/state"} {
		if _, err := os.Stat(filepath.Join(w.dir, state, "keeper")); err != nil {
			continue
		}
		cmd := exec.Command("reconciler", "shutdown", "--state-dir", filepath.Join(w.dir, state))
		cmd.Env = w.env
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Errorf("shutdown of %s: %v\n%s", state, err, out)
		}
	}
}

func (w *walk) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temp, []byte(w.ports.Replace(text)), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		w.t.Fatal(err)
	}
}

// session runs a block's commands and returns how many they were.
func (w *walk) session(where string, lines []string) int {
	w.t.Helper()
	ran := 0
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			w.t.Fatalf("%s: %q is below no command", where, lines[i])
		}
		i++
		var shown []string
		for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ "); i++ {
			shown = append(shown, lines[i])
		}
		w.command(where+": "+command, command, shown)
		ran++
	}
	return ran
}

func (w *walk) command(where, line string, shown []string) {
	w.t.Helper()
	words, to, err := split(w.ports.Replace(line))
	if err != nil || len(words) == 0 {
		w.t.Fatalf("%s: %v", where, err)
	}
	if goesOn(words) {
		w.follow(where, words, shown)
		return
	}
	fails := len(shown) > 0 && strings.HasPrefix(shown[0], "error: ")
	deadline := time.Now().Add(patience)
	for {
		out, err := w.run(words, to)
		got := plainLines(w.shown.Replace(string(out)))
		if (err != nil) == fails && (len(shown) == 0 || matches(shown, got)) {
			return
		}
		if !onlyLooks(words) || time.Now().After(deadline) {
			w.t.Fatalf("%s: %v\nprinted:\n%s\nthe page shows:\n%s\nbeside it:\n%s", where, err, strings.Join(got, "\n"), strings.Join(shown, "\n"), w.beside())
		}
		time.Sleep(20 * time.Millisecond) // a reader types more slowly than this
	}
}

// run runs one command to its end.
func (w *walk) run(words []string, to string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = w.dir, w.env
	if to == "" {
		return cmd.CombinedOutput()
	}
	out, err := cmd.Output()
	if err == nil {
		w.write(to, w.shown.Replace(string(out)))
	}
	return nil, err
}

// goesOn reports whether a command ends only when it is interrupted.
func goesOn(words []string) bool {
	if words[0] == "make" {
		return slices.Contains(words, "run")
	}
	return strings.HasSuffix(words[0], "reconciler") && (words[1] == "run" || slices.Contains(words, "-f") || slices.Contains(words, "-w"))
}

// onlyLooks reports whether a command may be asked again until the world is as the page says: it changes nothing.
func onlyLooks(words []string) bool {
	looks := []string{"get", "describe", "why", "logs", "history", "events", "doctor", "version", "validate"}
	return strings.HasSuffix(words[0], "reconciler") && slices.Contains(looks, words[1]) || words[0] == "curl"
}

// session is a command that goes on.
type session struct {
	cmd   *exec.Cmd
	ended chan struct{}
	more  chan struct{}
	mu    sync.Mutex
	lines []string
}

func (w *walk) follow(where string, words, shown []string) {
	w.t.Helper()
	r, pipe, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env, pipe, pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal's, so that an interrupt reaches all of it
	err = cmd.Start()
	_ = pipe.Close()
	if err != nil {
		w.t.Fatalf("%s: %v", where, err)
	}
	s := &session{cmd: cmd, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	go s.read(r)
	w.background = append(w.background, s)
	timeout := time.After(3 * time.Minute) // it may have to be built
	for {
		got := s.said()
		for i := range got {
			got[i] = w.shown.Replace(got[i])
		}
		if matches(append(slices.Clone(shown), "…"), plainLines(strings.Join(got, "\n"))) {
			break
		}
		select {
		case <-s.more:
		case <-s.ended:
			w.t.Fatalf("%s: it has ended\n%s", where, strings.Join(s.said(), "\n"))
		case <-timeout:
			w.t.Fatalf("%s: printed\n%s\nthe page shows\n%s\nbeside it:\n%s", where, strings.Join(got, "\n"), strings.Join(shown, "\n"), w.beside())
		}
	}
	if words[0] != "make" && words[1] != "run" {
		s.kill()
	}
}

func (s *session) read(r *os.File) {
	defer close(s.ended)
	defer r.Close()
	for sc := bufio.NewScanner(r); sc.Scan(); {
		s.mu.Lock()
		s.lines = append(s.lines, sc.Text())
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

func (s *session) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// kill interrupts the command as ^C does, and reaps it.
func (s *session) kill() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT) // a group that we made; ESRCH = it has ended
	_ = s.cmd.Wait()
}

// beside is what runs in the background has said.
func (w *walk) beside() string {
	var b strings.Builder
	for _, s := range w.background {
		fmt.Fprintf(&b, "%s\n%s\n", s.cmd, strings.Join(s.said(), "\n"))
	}
	return b.String()
}

// split splits a command line as a shell would that expands nothing: quotes, and at the end "> FILE".
func split(line string) (words []string, to string, err error) {
	var word bytes.Buffer
	in, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		case quote == 0 && strings.ContainsRune("|&;$`*?<\\~", r), quote == '"' && strings.ContainsRune("$`\\", r):
			return nil, "", fmt.Errorf("%q needs a shell", line)
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, "", errors.New("a quote has no end")
	}
	if in {
		words = append(words, word.String())
	}
	if n := len(words); n > 2 && words[n-2] == ">" {
		return words[:n-2], words[n-1], nil
	}
	return words, "", nil
}

// The parts of an output that are never the same twice.
var (
	datePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	longPattern = regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	agoPattern  = regexp.MustCompile(`\b\d+(ms|s|m|h|d)(\d+(s|m|h))?\b`)
)

// plainLines is an output with ages and times made equal and the width of columns left out.
func plainLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = plain(l)
	}
	return lines
}

func plain(l string) string {
	l = datePattern.ReplaceAllString(l, "DATE")
	l = longPattern.ReplaceAllString(l, "DATE")
	l = agoPattern.ReplaceAllString(l, "AGE")
	return strings.Join(strings.Fields(l), " ")
}

// matches reports whether an output is what a page shows.
func matches(shown, got []string) bool {
	if len(shown) == 0 {
		return len(got) == 0
	}
	if shown[0] == "…" {
		for i := range len(got) + 1 {
			if matches(shown[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(plain(shown[0]), got[0]) && matches(shown[1:], got[1:])
}

func matchLine(shown, got string) bool {
	first, rest, wild := strings.Cut(shown, "…")
	if !wild {
		return shown == got
	}
	got, ok := strings.CutPrefix(got, first)
	if !ok {
		return false
	}
	for i := range len(got) + 1 {
		if matchLine(rest, got[i:]) {
			return true
		}
	}
	return false
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		shown, got string
		want       bool
	}{
		{"NAME  AGE\necho  12s", "NAME   AGE\necho   2m3s", true},
		{"NAME  AGE\necho  12s", "NAME   AGE\necho   2m3s\nmore", false},
		{"NAME  AGE\necho  12s", "NAME   AGE", false},
		{"a\n…\nz", "a\nb\nc\nz", true},
		{"a\n…", "a", true},
		{"a\n…\nz", "a\nb", false},
		{"revision … is", "revision 1a2b is", true},
		{"revision … is", "revision 1a2b", false},
		{"time=2026-01-02T03:04:05Z ok", "time=2027-02-03T04:05:06.789Z ok", true},
		{"echo 1", "echo 2", false},
	} {
		if got := matches(strings.Split(tt.shown, "\n"), plainLines(tt.got)); got != tt.want {
			t.Errorf("%q and %q: %v", tt.shown, tt.got, got)
		}
	}
}

func TestSplit(t *testing.T) {
	words, to, err := split(`reconciler get 'a b' --for="x y" > m/echo.yaml`)
	if want := []string{"reconciler", "get", "a b", "--for=x y"}; !slices.Equal(words, want) || to != "m/echo.yaml" || err != nil {
		t.Errorf("%q, %q, %v", words, to, err)
	}
	for _, bad := range []string{"a | b", "a $HOME", "a; b", "a 'b", `a "$b"`} {
		if _, _, err := split(bad); err == nil {
			t.Errorf("%q needs no shell?", bad)
		}
	}
}
