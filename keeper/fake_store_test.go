package keeper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// fakeStore keeps records as bytes.
type fakeStore struct {
	*fakeKernel // for its faults: a crash may come in a write, too
	records     map[spec.Scope][]byte
	archived    map[spec.Scope]int
}

func newFakeStore(k *fakeKernel) *fakeStore {
	return &fakeStore{fakeKernel: k, records: map[spec.Scope][]byte{}, archived: map[spec.Scope]int{}}
}

func (s *fakeStore) Put(r *state.Record) error {
	if err := s.begin("Put"); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.records[r.Scope] = b
	s.point()
	return nil
}

// PutProgress holds its caller to the contract: r is what was put last, come to p.
func (s *fakeStore) PutProgress(r *state.Record, p state.Progress) error {
	want := s.record(r.Scope)
	want.Run = want.Run.Advanced(p)
	a, err := json.Marshal(want)
	b, bErr := json.Marshal(r)
	if err := errors.Join(err, bErr); err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		panic(fmt.Sprintf("progress of another record:\n%s\n%s", a, b))
	}
	return s.Put(r)
}

func (s *fakeStore) Archive(scope spec.Scope) error {
	if err := s.begin("Archive"); err != nil {
		return err
	}
	if s.records[scope] == nil {
		return state.ErrNoRecord
	}
	delete(s.records, scope)
	s.archived[scope]++
	return nil
}

func (s *fakeStore) Retire(_ context.Context, scope spec.Scope) error {
	if s.records[scope] != nil {
		return state.ErrUsable
	}
	if s.archived[scope] == 0 {
		return state.ErrNoRecord
	}
	delete(s.archived, scope)
	return nil
}

func (s *fakeStore) contents() *state.Contents {
	c := &state.Contents{}
	for _, scope := range slices.SortedFunc(maps.Keys(s.records), func(a, b spec.Scope) int { return strings.Compare(a.ID(), b.ID()) }) {
		r := &state.Record{}
		if err := json.Unmarshal(s.records[scope], r); err != nil {
			panic(err)
		}
		c.Records = append(c.Records, r)
	}
	return c
}

func (s *fakeStore) record(scope spec.Scope) *state.Record {
	for _, r := range s.contents().Records {
		if r.Scope == scope {
			return r
		}
	}
	return nil
}
