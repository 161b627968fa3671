package state

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// Table is a small durable map from keys to values of one kind: UIDs, generations, holds, last good launches. It is one
// append-only file. The whole of it is in memory; values that are handed out are shared and not to be changed.
type Table[V any] struct {
	group *group

	writing sync.Mutex // held while the journal is written, not while it is synced
	journal *journal

	mu     sync.RWMutex
	values map[string]V
}

// OpenTable opens the table at path, or begins an empty one. Its directory must be private, and its one writer be the caller
// (see [TakeLock]). What it holds then survives a power cut, unless Health says otherwise. A commit that a crash or power cut left unfinished is dropped; damage anywhere else is [ErrDamaged].
func OpenTable[V any](disk Disk, path string, format Format) (*Table[V], error) {
	if err := checkDir(disk, filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("table of %s: %w", format.Kind, err)
	}
	t := &Table[V]{group: newGroup(), values: map[string]V{}}
	j, err := openJournal(disk, path, format, t.apply)
	if err != nil {
		return nil, fmt.Errorf("table of %s: %w", format.Kind, err)
	}
	t.journal = j
	// What is read is acted on: a writer that died before its sync may have left what a power cut would take back.
	if j.synced < j.size && j.sync(&t.writing) != nil {
		t.group.changed() // Health tells, and it is tried again
	}
	return t, nil
}

func (t *Table[V]) apply(e edit) error {
	if e.value == nil {
		delete(t.values, e.key)
		return nil
	}
	var v V
	if err := json.Unmarshal(e.value, &v); err != nil {
		return fmt.Errorf("%w: the value of %q: %w", ErrDamaged, e.key, err)
	}
	t.values[e.key] = v
	return nil
}

// Run makes what was set survive a power cut, in groups: within a second, or at once when somebody waits. It
// returns after a last flush, with its error, when ctx ends. It must be called once.
func (t *Table[V]) Run(ctx context.Context) error { return t.group.run(ctx, t.flush) }

func (t *Table[V]) flush() error {
	t.writing.Lock()
	if t.journal.grown() {
		defer t.writing.Unlock()
		return t.journal.rewrite(t.live)
	}
	t.writing.Unlock()
	return t.journal.sync(&t.writing)
}

func (t *Table[V]) live(emit func(edit) error) error {
	t.mu.RLock()
	values := maps.Clone(t.values)
	t.mu.RUnlock()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, err := json.Marshal(values[key])
		if err != nil {
			return fmt.Errorf("cannot encode the value of %q: %w", key, err)
		}
		if err := emit(edit{key: key, value: value}); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the value of a key.
func (t *Table[V]) Get(key string) (v V, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok = t.values[key]
	return v, ok
}

// All returns a copy of the map.
func (t *Table[V]) All() map[string]V {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.values)
}

// Set sets a key. When it returns, that survives the death of this process, and a power cut within a second.
// After an error the table is as it was.
func (t *Table[V]) Set(key string, v V) error {
	_, err := t.set(key, v)
	return err
}

// SetDurable is Set, and waits until it survives a power cut. When ctx ends first or the flush fails, the key
// is set all the same, and would not or may not survive.
func (t *Table[V]) SetDurable(ctx context.Context, key string, v V) error {
	n, err := t.set(key, v)
	if err != nil {
		return err
	}
	return t.group.wait(ctx, n)
}

func (t *Table[V]) set(key string, v V) (change uint64, err error) {
	value, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("cannot encode the value of %q: %w", key, err)
	}
	if len(key)+len(value) > MaxRecordSize {
		return 0, fmt.Errorf("the value of %q is %d bytes long, the limit is %d", key, len(value), MaxRecordSize)
	}
	return t.write(edit{key: key, value: value}, func() { t.values[key] = v })
}

// Delete removes a key; one that is absent is no error.
func (t *Table[V]) Delete(key string) error {
	_, err := t.write(edit{key: key}, func() { delete(t.values, key) })
	return err
}

// DeleteDurable is Delete, and waits until it survives a power cut.
func (t *Table[V]) DeleteDurable(ctx context.Context, key string) error {
	n, err := t.write(edit{key: key}, func() { delete(t.values, key) })
	if err != nil {
		return err
	}
	return t.group.wait(ctx, n)
}

// write appends an edit and then carries it out in memory, in the same order.
func (t *Table[V]) write(e edit, do func()) (change uint64, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.journal.append([]edit{e}); err != nil {
		return 0, err
	}
	t.mu.Lock()
	do()
	t.mu.Unlock()
	return t.group.changed(), nil
}

// Flush waits until everything that was set before it survives a power cut.
func (t *Table[V]) Flush(ctx context.Context) error { return t.group.wait(ctx, t.group.newest()) }

// Health is nil, or why what was set last does not survive a power cut yet. It is tried again by itself.
func (t *Table[V]) Health() error { return t.group.health() }

// Close closes the file. Run must have returned. What it did not flush survives this process all the same.
func (t *Table[V]) Close() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.journal.close()
}
