package proc

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const zombieStat = "4711 (a) b (c)\n) Z 12 4711 4710 0 -1 4228300 1 2 3 4 250 50 0 0 20 0 1 0 987654 0 0 18446744073709551615 " +
	"0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 768\n"

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte(zombieStat))
	want := stat{pid: 4711, comm: "a) b (c)\n", state: 'Z', ppid: 12, session: 4710, cpu: 3 * time.Second, start: 987654, exit: 768}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	own, err := readStat(os.Getpid())
	if err != nil || own.pid != os.Getpid() || own.ppid != os.Getppid() || own.state == 'Z' || own.rss <= 0 || own.start == 0 {
		t.Errorf("ourselves: %+v, %v", own, err)
	}
	for _, bad := range []string{
		"", "1", "1 (a", "1 a)", ")1(", "1 (a)", "x (a) S 1 1 1", "(a) S",
		strings.Replace(zombieStat, "987654", "x", 1),
	} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(zombieStat))
	f.Add([]byte("1 () S"))
	f.Add([]byte("1 )( S 2 3 4"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStat(b)
		if err == nil && !strings.Contains(string(b), "("+s.comm+")") {
			t.Errorf("%q: name %q", b, s.comm)
		}
	})
}

const (
	hybrid = `23 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	unified   = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
	container = "30 23 0:26 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
	twice     = unified + `99 23 0:26 /user.slice /mnt/with\040space rw - cgroup2 cgroup2 rw` + "\n"
)

func TestPlaces(t *testing.T) {
	tests := map[string]struct {
		mountinfo, own string
		want           []place
	}{
		"hybrid":                    {hybrid, "/", []place{{"/sys/fs/cgroup/unified", "."}}},
		"unified, in a service":     {unified, "/system.slice/x.service", []place{{"/sys/fs/cgroup", "system.slice/x.service"}}},
		"container, host namespace": {container, "/docker/abc/init", []place{{"/sys/fs/cgroup", "init"}}},
		"container, its own root":   {container, "/docker/abc", []place{{"/sys/fs/cgroup", "."}}},
		"not what is mounted":       {container, "/docker/abcd", nil},
		"outside of the namespace":  {unified, "/../other", nil},
		"both outside":              {strings.Replace(unified, " / ", " /../x ", 1), "/../x", []place{{"/sys/fs/cgroup", "."}}},
		"the last mount first":      {twice, "/user.slice/u", []place{{"/mnt/with space", "u"}, {"/sys/fs/cgroup", "user.slice/u"}}},
		"none":                      {"", "/", nil},
		"only version 1":            {strings.ReplaceAll(hybrid, "cgroup2", "cgroup"), "/", nil},
	}
	for name, tt := range tests {
		if got := places(tt.mountinfo, tt.own); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestUnifiedPath(t *testing.T) {
	tests := map[string]string{
		"0::/\n":                               "/",
		"9:name=systemd:/a\n0::/b c:d\n":       "/b c:d",
		"0::/gone (deleted)\n":                 "/gone",
		"1:cpu:/a\n":                           "",
		"":                                     "",
		"0::relative\n":                        "",
		"2:x:/0::/y\n0::/system.slice/a@b.c\n": "/system.slice/a@b.c",
	}
	for text, want := range tests {
		got, ok := unifiedPath(text)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
	}
}

func FuzzPlaces(f *testing.F) {
	for _, m := range []string{hybrid, unified, container, twice} {
		f.Add(m, "/a/b")
	}
	f.Add(`1 2 3:4 \057 \x rw - cgroup2 - -`, "/")
	f.Fuzz(func(t *testing.T, mountinfo, own string) {
		for _, p := range places(mountinfo, own) {
			if !fs.ValidPath(p.rel) {
				t.Errorf("%q in %q: %+v", own, mountinfo, p)
			}
		}
	})
}

func FuzzUnifiedPath(f *testing.F) {
	f.Add("9:name=systemd:/a\n0::/b (deleted)\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := unifiedPath(text); ok && (!strings.HasPrefix(p, "/") || strings.Contains(p, "\n")) {
			t.Errorf("%q: %q", text, p)
		}
	})
}

func TestKeyed(t *testing.T) {
	b := []byte("low 0\noom 2\noom_kill 3\n\nodd\nbad x\n")
	if n, ok := keyed(b, "oom_kill"); n != 3 || !ok {
		t.Errorf("oom_kill %d, %v", n, ok)
	}
	for _, name := range []string{"oom_", "odd", "bad", ""} {
		if n, ok := keyed(b, name); ok {
			t.Errorf("%s %d", name, n)
		}
	}
}

func FuzzCgroupFiles(f *testing.F) {
	f.Add([]byte("populated 1\nfrozen 0\n"))
	f.Add([]byte("12\n0\n34\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pid := range pids(b) {
			if pid <= 0 {
				t.Errorf("%q: number %d", b, pid)
			}
		}
		if n, ok := keyed(b, "populated"); ok && !strings.Contains(string(b), "populated") {
			t.Errorf("%q: %d", b, n)
		}
	})
}

func FuzzWatchEvents(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Add([]byte("\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &Watch{keys: map[int32]string{1: "a"}, wds: map[string]int32{"a": 1}}
		changed := make(map[string]struct{})
		w.take(b, changed)
		for k := range changed {
			if k != "a" {
				t.Errorf("%q: %q changed", b, k)
			}
		}
	})
}
