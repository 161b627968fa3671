package api

import (
	"encoding/json"
	"net/http"
)

// watch sends what there is, a bookmark, and then every change, until the reader goes or the server ends. A reader that
// is slow sees fewer, newer changes; it holds up nobody else: the handler runs beside the loop and looks at snapshots.
func (s *Service) watch(w http.ResponseWriter, r *http.Request, c collect) error {
	changed, end := s.Loop.Watch()
	defer end()
	out := watchWriter{enc: json.NewEncoder(w), flush: http.NewResponseController(w), sent: map[string]sentItem{}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := out.update(c(s.Loop.Snapshot())); err != nil {
		return s.ended(err)
	}
	if err := out.bookmark(); err != nil {
		return s.ended(err)
	}
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-changed:
		}
		if err := out.update(c(s.Loop.Snapshot())); err != nil {
			return s.ended(err)
		}
	}
}

// ended is the end of a watch whose reader has gone, or whose answer has begun: there is nobody to tell.
func (s *Service) ended(err error) error {
	s.Log.Debug("a watch has ended", "error", err)
	return nil
}

type sentItem struct {
	rev    string
	object json.RawMessage
}

// watchWriter knows what the reader has been told.
type watchWriter struct {
	enc   *json.Encoder
	flush *http.ResponseController
	sent  map[string]sentItem
}

// update sends the difference between what was told and items.
func (w *watchWriter) update(items []item) error {
	now := make(map[string]bool, len(items))
	for _, it := range items {
		now[it.id] = true
		old, known := w.sent[it.id]
		if known && old.rev == it.rev {
			continue
		}
		raw, err := it.raw()
		if err != nil {
			return err
		}
		kind := Added
		if known {
			kind = Modified
		}
		w.sent[it.id] = sentItem{it.rev, raw}
		if err := w.enc.Encode(WatchEvent{Type: kind, Object: raw}); err != nil {
			return err
		}
	}
	for id, old := range w.sent {
		if now[id] {
			continue
		}
		delete(w.sent, id)
		if err := w.enc.Encode(WatchEvent{Type: Deleted, Object: old.object}); err != nil {
			return err
		}
	}
	return w.flush.Flush()
}

func (w *watchWriter) bookmark() error {
	if err := w.enc.Encode(WatchEvent{Type: Bookmark, Object: json.RawMessage("{}")}); err != nil {
		return err
	}
	return w.flush.Flush()
}
