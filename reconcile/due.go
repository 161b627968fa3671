package reconcile

import (
	"container/heap"
	"time"
)

// dueHeap holds the servers that are to be looked at again at some time, the earliest first.
type dueHeap []*server

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements [heap.Interface].
func (h *dueHeap) Push(x any) {
	s := x.(*server)
	s.at = len(*h)
	*h = append(*h, s)
}

// Pop implements [heap.Interface].
func (h *dueHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.at = -1
	return s
}

// set says when a server is to be looked at again; 0 = not by the clock.
func (h *dueHeap) set(s *server, due time.Duration) {
	s.due = due
	switch {
	case due == 0 && s.at >= 0:
		heap.Remove(h, s.at)
	case due == 0:
	case s.at >= 0:
		heap.Fix(h, s.at)
	default:
		heap.Push(h, s)
	}
}

// first is the earliest time; 0 = none.
func (h dueHeap) first() time.Duration {
	if len(h) == 0 {
		return 0
	}
	return h[0].due
}

// take pops a server that is due, nil when none is.
func (h *dueHeap) take(now time.Duration) *server {
	if len(*h) == 0 || (*h)[0].due > now {
		return nil
	}
	s := heap.Pop(h).(*server)
	s.due = 0
	return s
}
