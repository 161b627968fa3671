package dir

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// indexLimit is the size in bytes of the largest index of git that is read.
const indexLimit = 64 << 20

// index is what git has recorded of its working tree (gitformat-index(5)), as far as it is about manifests.
type index struct {
	print   fingerprint
	entries map[string]indexEntry // by path in the working tree; nil = not known
	answers map[string]answer     // by path in the source
}

// indexEntry is what git has recorded of one file.
type indexEntry struct {
	size  uint32 // modulo 2^32
	mtime int64
	hash  string // of the blob, in bytes
	// regular is set for a regular file that is meant to be in the working tree.
	regular bool
}

// answer is whether one state of a file differs from what git has recorded.
type answer struct {
	print  fingerprint
	differ bool
}

// dirty reports whether a manifest of the tree is not in git's index or is different there. What is in the index but not
// committed is not seen: that would take reading git's objects. Files outside the working tree do not count.
func (r *repository) dirty(files map[string]cached, l layout) bool {
	if r.gitDir == "" || !r.loadIndex() {
		return false
	}
	where := l.places()
	answers := make(map[string]answer, len(files))
	dirty := r.misses(files, l.root)
	for path, c := range files {
		a, ok := r.index.answers[path]
		if !ok || a.print != c.print {
			a = answer{print: c.print, differ: r.differs(where.of(path), c)}
		}
		answers[path] = a
		dirty = dirty || a.differ
	}
	r.index.answers = answers
	return dirty
}

// misses reports whether a regular file that git has recorded below root is not among the files.
func (r *repository) misses(files map[string]cached, root string) bool {
	at, err := filepath.Rel(r.tree, root)
	if err != nil {
		return false
	}
	for path, e := range r.index.entries {
		if at != "." {
			below, ok := strings.CutPrefix(path, at+"/")
			if !ok {
				continue
			}
			path = below
		}
		if _, there := files[path]; !there && e.regular && !hidden(path) {
			return true
		}
	}
	return false
}

// hidden reports whether a directory on the way to the path is not looked into.
func hidden(path string) bool {
	for dir := parent(path); dir != ""; dir = parent(dir) {
		if classify(filepath.Base(dir)) == nameLitter {
			return true
		}
	}
	return false
}

// differs reports whether the file differs from what git has recorded.
func (r *repository) differs(real string, c cached) bool {
	rel, err := filepath.Rel(r.tree, real)
	if err != nil || strings.HasPrefix(rel, "..") {
		return false
	}
	e, ok := r.index.entries[rel]
	switch {
	case !ok:
		return true
	case e.size != uint32(c.print.size):
		return true
	case e.mtime == c.print.mtime && e.mtime < r.index.print.mtime:
		return false
	}
	data, err := os.ReadFile(real)
	if err != nil || len(data) > sizeLimit {
		return err == nil
	}
	return string(blobHash(data, len(e.hash))) != e.hash
}

// blobHash is the name that git gives to a file's content.
func blobHash(data []byte, size int) []byte {
	var h hash.Hash = sha1.New()
	if size == sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return h.Sum(nil)
}

// loadIndex reads the index if it changed. It reports false when there is none that can be read.
func (r *repository) loadIndex() bool {
	path := filepath.Join(r.gitDir, "index")
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		r.index = index{}
		return false
	}
	if print := fingerprintOf(&st); print != r.index.print {
		r.index = index{print: print}
		if st.Size <= indexLimit {
			if data, err := os.ReadFile(path); err == nil {
				r.index.entries, _ = parseIndex(data)
			}
		}
	}
	return r.index.entries != nil
}

var errIndex = errors.New("is not an index of git that can be read")

// parseIndex reads an index of version 2, 3 or 4 and returns its entries whose names are those of manifests. A split or
// a sparse index does not have them all and is refused.
func parseIndex(data []byte) (map[string]indexEntry, error) {
	for _, size := range []int{sha1.Size, sha256.Size} {
		if entries, err := parseIndexWith(data, size); err == nil {
			return entries, nil
		}
	}
	return nil, errIndex
}

// parseIndexWith is parseIndex for hashes of that size.
func parseIndexWith(data []byte, hashSize int) (map[string]indexEntry, error) {
	if len(data) < 12+hashSize || string(data[:4]) != "DIRC" || !sumHolds(data, hashSize) {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	entries := map[string]indexEntry{}
	rest, end := data[12:len(data)-hashSize], len(data)-hashSize
	name := ""
	for range count {
		start := end - len(rest)
		fixed := 40 + hashSize + 2
		if len(rest) < fixed {
			return nil, errIndex
		}
		e := indexEntry{
			mtime: int64(binary.BigEndian.Uint32(rest[8:]))*1e9 + int64(binary.BigEndian.Uint32(rest[12:])),
			size:  binary.BigEndian.Uint32(rest[36:]),
			hash:  string(rest[40 : 40+hashSize]),
		}
		e.regular = binary.BigEndian.Uint32(rest[24:])&0xf000 == 0x8000
		flags := binary.BigEndian.Uint16(rest[40+hashSize:])
		if flags&0x4000 != 0 { // extended flags
			fixed += 2
		}
		if len(rest) < fixed {
			return nil, errIndex
		}
		if flags&0x4000 != 0 && binary.BigEndian.Uint16(rest[fixed-2:])&0x4000 != 0 { // skip-worktree
			e.regular = false
		}
		rest = rest[fixed:]
		keep := 0
		if version == 4 {
			strip, n := offsetVarint(rest)
			if n == 0 || strip > len(name) {
				return nil, errIndex
			}
			keep, rest = len(name)-strip, rest[n:]
		}
		nul := bytes.IndexByte(rest, 0)
		if nul < 0 {
			return nil, errIndex
		}
		name = name[:min(keep, len(name))] + string(rest[:nul])
		rest = rest[nul+1:]
		if version < 4 { // padded with NUL to a multiple of eight, at least one
			pad := (8 - (end-len(rest)-start)%8) % 8
			if len(rest) < pad {
				return nil, errIndex
			}
			rest = rest[pad:]
		}
		if classify(filepath.Base(name)) == nameManifest && flags&0x3000 == 0 { // 0x3000: stage of a conflict
			entries[name] = e
		}
	}
	if hasExtension(rest, "link") || hasExtension(rest, "sdir") {
		return nil, errIndex
	}
	return entries, nil
}

// sumHolds reports whether the index ends in its own hash, or in zeros (index.skipHash).
func sumHolds(data []byte, hashSize int) bool {
	body, sum := data[:len(data)-hashSize], data[len(data)-hashSize:]
	if len(bytes.Trim(sum, "\x00")) == 0 {
		return true
	}
	if hashSize == sha256.Size {
		want := sha256.Sum256(body)
		return bytes.Equal(want[:], sum)
	}
	want := sha1.Sum(body)
	return bytes.Equal(want[:], sum)
}

// hasExtension reports whether the extensions of an index have one of that name.
func hasExtension(rest []byte, name string) bool {
	for len(rest) >= 8 {
		size := binary.BigEndian.Uint32(rest[4:])
		if string(rest[:4]) == name {
			return true
		}
		if uint64(len(rest)) < 8+uint64(size) {
			return false
		}
		rest = rest[8+size:]
	}
	return false
}

// offsetVarint reads a number as an index of version 4 has it, and how many bytes it takes; 0 = none is there.
func offsetVarint(b []byte) (value, n int) {
	for n < len(b) && n < 5 {
		c := b[n]
		n++
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
		value++
	}
	return 0, 0
}
