package queue

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// mutex is a sync.Mutex that knows whether others wait for it. sync.Mutex prefers a goroutine
// that locks it again at once over one that has waited for less than a millisecond.
type mutex struct {
	sync.Mutex
	waiting atomic.Int32
}

// Lock locks m.
func (m *mutex) Lock() {
	if m.TryLock() {
		return
	}
	m.waiting.Add(1)
	m.Mutex.Lock()
	m.waiting.Add(-1)
}

// letOthersLock lets a goroutine run that waits for m. It is for callers that lock m many times
// in a row, between two of them.
func (m *mutex) letOthersLock() {
	if m.waiting.Load() > 0 {
		runtime.Gosched()
	}
}
