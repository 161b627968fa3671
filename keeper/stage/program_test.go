package stage

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

var rebuild = flag.Bool("rebuild", false, "write elf/*.elf anew from their sources")

// The programs in the binary are what the sources in elf/ say, where the tools to build them are there. go generate
// runs this with -rebuild.
func TestProgramIsWhatItsSourceSays(t *testing.T) {
	for arch, prefixes := range map[string][]string{
		"amd64": {"x86_64-linux-gnu-", ""},
		"arm64": {"aarch64-linux-gnu-", ""},
	} {
		t.Run(arch, func(t *testing.T) {
			committed, err := os.ReadFile("elf/" + arch + ".elf")
			if err != nil {
				t.Fatal(err)
			}
			checkProgram(t, arch, committed)
			built := build(t, arch, prefixes)
			if built == nil {
				t.Skipf("no assembler for %s (Debian: binutils-x86-64-linux-gnu, binutils-aarch64-linux-gnu)", arch)
			}
			if *rebuild {
				if err := os.WriteFile("elf/"+arch+".elf", built, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(built, committed) {
				t.Errorf("elf/%s.elf is not what elf/%s.S says: run go generate ./keeper/stage", arch, arch)
			}
		})
	}
}

// build assembles and links with the first tools that make the architecture; nil when there are none.
func build(t *testing.T, arch string, prefixes []string) []byte {
	t.Helper()
	dir := t.TempDir()
	object, linked, flat := filepath.Join(dir, "o"), filepath.Join(dir, "linked"), filepath.Join(dir, "flat")
	for _, prefix := range prefixes {
		if _, err := exec.LookPath(prefix + "as"); err != nil {
			continue
		}
		if prefix == "" && !nativeAssembler(arch) {
			continue
		}
		for _, argv := range [][]string{
			{prefix + "as", "-o", object, "elf/" + arch + ".S"},
			{prefix + "ld", "-Ttext", "0x400000", "-o", linked, object},
			{prefix + "objcopy", "-O", "binary", "-j", ".text", linked, flat},
		} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", argv, err, out)
			}
		}
		b, err := os.ReadFile(flat)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return nil
}

// nativeAssembler reports whether the assembler without a prefix is for arch: it is for the machine that we run on.
func nativeAssembler(arch string) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return unix.ByteSliceToString(u.Machine[:]) == map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
}

// checkProgram looks at what can be seen without the tools.
func checkProgram(t *testing.T, arch string, b []byte) {
	t.Helper()
	if len(b) >= 1<<10 {
		t.Errorf("%d bytes, want under 1 KiB", len(b))
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 2 {
		t.Errorf("%v, %v, %d segments", f.Machine, f.Type, len(f.Progs))
	}
	for _, p := range f.Progs {
		if p.Flags&elf.PF_W != 0 && p.Flags&elf.PF_X != 0 {
			t.Errorf("segment %v is writable and executable", p.Type)
		}
	}
}

// Where memory may not be executed, an unlinked file does as well.
func TestProgramInAFile(t *testing.T) {
	dir := t.TempDir()
	f, err := tried(fileProgram(dir))
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	s, err := newStager(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBenchOf(t, s, self, "inspect")
	if got := b.inspected(t); got.SID != got.PID {
		t.Errorf("%+v", got)
	}
	if f, err := fileProgram(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v, %v", f, err)
	}
}

// Nobody changes the program under us.
func TestProgramInMemoryIsSealed(t *testing.T) {
	f, err := memoryProgram()
	if err != nil {
		t.Skipf("this host executes nothing from memory: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL); !errors.Is(err, unix.EPERM) {
		t.Errorf("more seals: %v", err)
	}
}

// The program is executed after the child's descriptors are in place, which must not hide it.
func TestProgramIsOutOfTheWayOfDescriptors(t *testing.T) {
	for range firstFree {
		low, err := unix.Open(os.DevNull, os.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(low)
		inFile := func() (*os.File, error) { return fileProgram(t.TempDir()) }
		for _, open := range []func() (*os.File, error){memoryProgram, inFile} {
			program, err := tried(open())
			if err != nil {
				t.Fatal(err)
			}
			if program.Fd() < firstFree {
				t.Errorf("the program is descriptor %d", program.Fd())
			}
			program.Close()
		}
	}
}

func TestTrialSeesWhatIsNoStage(t *testing.T) {
	f, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := trial(selfFd(int(f.Fd()))); err == nil {
		t.Error("a program that exits with 0 is taken for the stage")
	}
}
