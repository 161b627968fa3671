package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"reconciler.dev/reconciler/state"
)

// maxKeeperLog is the size in bytes over which the keeper's own log begins anew; what was in it is kept once.
const maxKeeperLog = 4 << 20

// ownLog is the file that a [Spawner] has given a keeper, and each keeper after it by the anchor's hand: it begins anew in its place, since
// the anchor goes on handing out the same open file.
type ownLog struct {
	file  *os.File
	path  string
	size  int64 // in bytes
	limit int64
}

// OwnLog is where a keeper says what it has to say: out, and if that is STATE/keeper.log, within bounds. One at a time may write.
func OwnLog(l state.Layout, out io.Writer) io.Writer {
	f, ok := out.(*os.File)
	if !ok {
		return out
	}
	info, err := f.Stat()
	if err != nil || !isFile(keeperLog(l), info) {
		return out
	}
	o := &ownLog{file: f, path: keeperLog(l), size: info.Size(), limit: maxKeeperLog}
	o.bound() // keepers that crash, each with some last words, write past us
	return o
}

// Write writes, and begins the file anew when that was too much.
func (o *ownLog) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	o.size += int64(n)
	o.bound()
	return n, err
}

// bound begins the file anew when it is too large. That the disk has no room for the old one is no reason to go on filling it.
func (o *ownLog) bound() {
	if o.size <= o.limit {
		return
	}
	err := errors.Join(o.keep(), o.file.Truncate(0))
	o.size = 0
	if err != nil {
		fmt.Fprintf(o.file, "error: cannot keep what this log has said before: %v\n", err)
	}
}

// keep copies the file to where the old one is kept.
func (o *ownLog) keep() error {
	from, err := os.Open(o.path)
	if err != nil {
		return err
	}
	defer from.Close()
	old, err := os.OpenFile(o.path+".old", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(old, io.LimitReader(from, 2*o.limit))
	return errors.Join(err, old.Close())
}
