package journal

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/leadership"
)

// predecessor writes the journal of a leader that has fenced what it had to, and whose
// Bindings of two pods are under way.
func predecessor(t *testing.T, s *fakeServer, l Leadership) {
	t.Helper()
	j := leader(t, s, "before", l)
	j.Fenced(nil)
	time.Sleep(time.Second)
	for _, uid := range []types.UID{"a", "b"} {
		if err := j.Commit(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatANewLeaderFences(t *testing.T) {
	notElected := Leadership{}
	for name, c := range map[string]struct {
		before func(t *testing.T, s *fakeServer)
		leads  Leadership
		fence  Fence
		pods   []types.UID
	}{
		"nothing, without an earlier Lease and journal": {
			func(*testing.T, *fakeServer) {}, elected(0), FenceNone, nil,
		},
		"nothing, without an election and without an earlier Lease and journal": {
			func(*testing.T, *fakeServer) {}, Leadership{First: true}, FenceNone, nil,
		},
		"fresh pods and those in the journal, after a leader that wrote it": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(6)) }, elected(7), FenceFresh, []types.UID{"a", "b"},
		},
		"the same, after the first leader": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(0)) }, elected(1), FenceFresh, []types.UID{"a", "b"},
		},
		"the same without an election": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, notElected) }, notElected, FenceFresh, []types.UID{"a", "b"},
		},
		"every pod, with a Lease and without a journal": {
			func(*testing.T, *fakeServer) {}, elected(7), FenceAll, nil,
		},
		"every pod, without an election, with a Lease and without a journal": {
			func(*testing.T, *fakeServer) {}, notElected, FenceAll, nil,
		},
		"every pod, if the leader before did not write the journal": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(5)) }, elected(7), FenceAll, []types.UID{"a", "b"},
		},
		"every pod, if the Lease was created anew and the journal is of the old one": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(7)) }, elected(0), FenceAll, []types.UID{"a", "b"},
		},
		"fresh pods and those in the journal, after a leader with the same Lease": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, withLease("one", elected(6))) }, withLease("one", elected(7)), FenceFresh, []types.UID{"a", "b"},
		},
		"every pod, if the Lease was deleted since, and another one counts alike": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, withLease("one", elected(6))) }, withLease("two", elected(7)), FenceAll, []types.UID{"a", "b"},
		},
		"every pod, after a version of Berth that did not write of which Lease the epoch is": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(6)) }, withLease("one", elected(7)), FenceAll, []types.UID{"a", "b"},
		},
		"every pod, if the leader before was elected and this one is not": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(7)) }, notElected, FenceAll, []types.UID{"a", "b"},
		},
		"every pod, if the leader before was not elected": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, notElected) }, elected(1), FenceAll, []types.UID{"a", "b"},
		},
		"every pod, if the leader before had to and did not finish": {
			func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(5))
				leader(t, s, "died", elected(7))
			}, elected(8), FenceAll, []types.UID{"a", "b"},
		},
		"the same as the leader before, which did not finish": {
			func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				leader(t, s, "died", elected(7))
			}, elected(8), FenceFresh, []types.UID{"a", "b"},
		},
		"the pods that the leader before could not fence": {
			func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				j := leader(t, s, "failed", elected(7))
				j.Fenced([]types.UID{"b"})
				if err := j.Commit(t.Context(), "c"); err != nil {
					t.Fatal(err)
				}
			}, elected(8), FenceFresh, []types.UID{"b", "c"},
		},
		"every pod, if the journal was edited": {
			func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				s.stored.Data[epochKey] = "six"
			}, elected(7), FenceAll, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				c.before(t, s)
				h, ok := newJournal(s, "new").TakeOver(t.Context(), c.leads)
				if !ok || h.Err != nil || h.Fence != c.fence {
					t.Errorf("taken over %v, fence %q, error %v, want %q", ok, h.Fence, h.Err, c.fence)
				}
				if got := slices.Sorted(keys(h.Pods)); !cmp.Equal(got, c.pods) {
					t.Errorf("the journal has %v, want %v", got, c.pods)
				}
				// Until all is fenced, a next leader must find the same.
				if got := s.storedPods(t); !cmp.Equal(got, c.pods) || s.storedContent(t).holder != "new" {
					t.Errorf("the stored journal has %v, by %s", got, s.storedContent(t).holder)
				}
			})
		})
	}
}

func TestFencedIsWrittenWithoutAnotherCommit(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(7))
		j.Fenced(nil)
		time.Sleep(time.Minute)
		if h, _ := newJournal(s, "new").TakeOver(t.Context(), elected(8)); h.Fence != FenceFresh {
			t.Errorf("the next leader fences %q", h.Fence)
		}
	})
}

// A leader that ends by itself closes the journal; the next one learns at which version.
func TestCloseTellsTheNextLeaderWhenTheLastBindingWasSent(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(t *testing.T, s *fakeServer, j *Journal)
		closed bool
	}{
		"a leader that ends": {func(t *testing.T, _ *fakeServer, j *Journal) { j.Close(t.Context()) }, true},
		"a leader that ends beside a write": {func(t *testing.T, _ *fakeServer, j *Journal) {
			go func() { _ = j.Commit(t.Context(), "a") }()
			j.Close(t.Context())
		}, true},
		"a leader that is killed": {func(*testing.T, *fakeServer, *Journal) {}, false},
		"a leader whose last write is refused": {func(t *testing.T, s *fakeServer, j *Journal) {
			s.outcomes = []outcome{{err: forbidden}}
			j.Close(t.Context())
		}, false},
		"a leader whose successor was killed before it had fenced": {func(t *testing.T, s *fakeServer, j *Journal) {
			j.Close(t.Context())
			leader(t, s, "died", elected(8))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				j := leader(t, s, "us", elected(7))
				j.Fenced(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				began := time.Now()
				c.end(t, s, j)
				if took := time.Since(began); took > closeTimeout {
					t.Errorf("closing took %v", took)
				}
				epoch := s.storedContent(t).epoch + 1
				closedAt := s.stored.ResourceVersion
				h, _ := newJournal(s, "new").TakeOver(t.Context(), elected(epoch))
				if h.Fence != FenceFresh || (h.ClosedAt == closedAt) != c.closed || (h.ClosedAt == "") == c.closed {
					t.Errorf("the next leader fences %q, and the journal was closed at %q; it was at %q", h.Fence, h.ClosedAt, closedAt)
				}
				if s.storedContent(t).closed || h.Version != s.stored.ResourceVersion {
					t.Errorf("the new leader has written %+v at %s, and says %s", s.storedContent(t), s.stored.ResourceVersion, h.Version)
				}
			})
		})
	}
}

func TestALateWriteOfAnEarlierLeaderFails(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		old := leader(t, s, "old", elected(0))
		s.outcomes = []outcome{{late: true, err: errLost}}
		committed := make(chan error, 1)
		go func() { committed <- old.Commit(t.Context(), "a") }()
		time.Sleep(writeInterval + time.Millisecond)
		h, _ := newJournal(s, "new").TakeOver(t.Context(), elected(1))
		if err := s.applyLateWrites(); !apierrors.IsConflict(err) {
			t.Errorf("the late write got %v, want a conflict", err)
		}
		if err := <-committed; err == nil {
			t.Errorf("the commit succeeded; the new leader fences %v", h.Pods)
		}
		if s.storedContent(t).holder != "new" {
			t.Errorf("the journal was written by %s", s.storedContent(t).holder)
		}
	})
}

func TestTakeOverAfterALostAnswer(t *testing.T) {
	for name, f := range map[string]outcome{
		"the write was applied":           {applied: true, err: errLost},
		"the write was not applied":       {err: errLost},
		"the write is applied afterwards": {late: true, err: errLost},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				s.outcomes = []outcome{f}
				time.AfterFunc(retryPause/2, func() { _ = s.applyLateWrites() })
				j := newJournal(s, "new")
				h, ok := j.TakeOver(t.Context(), elected(7))
				if got := slices.Sorted(keys(h.Pods)); !ok || h.Fence != FenceFresh || !cmp.Equal(got, []types.UID{"a", "b"}) {
					t.Errorf("taken over %v, fence %q, pods %v", ok, h.Fence, got)
				}
				j.Fenced(nil)
				if err := j.Commit(t.Context(), "c"); err != nil {
					t.Error(err)
				}
				if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"c"}) {
					t.Errorf("the journal has %v", got)
				}
			})
		})
	}
}

// Where the journal cannot be written, a Binding may be sent without a commit only if the
// next leader is sure to fence every pod.
func TestTakeOverWithoutTheRightToWrite(t *testing.T) {
	noNamespace := apierrors.NewNotFound(configMaps, "namespaces")
	for name, c := range map[string]struct {
		before func(t *testing.T, s *fakeServer)
		leads  Leadership
		getErr error
		err    error
		binds  bool
	}{
		"under a Lease the next leader does not find this epoch": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(6)) }, elected(7), nil, forbidden, true,
		},
		"nor does it if the journal cannot be read": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, elected(6)) }, elected(7), forbidden, nil, true,
		},
		"without an election and without a namespace there is no journal": {
			func(*testing.T, *fakeServer) {}, Leadership{First: true}, nil, noNamespace, true,
		},
		"without an election, the next leader relies on an existing journal": {
			func(t *testing.T, s *fakeServer) { predecessor(t, s, Leadership{}) }, Leadership{}, nil, forbidden, false,
		},
		"without an election, an unreadable journal may exist": {
			func(*testing.T, *fakeServer) {}, Leadership{}, forbidden, nil, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				c.before(t, s)
				s.getErr = c.getErr
				for range 1000 {
					s.outcomes = append(s.outcomes, outcome{err: c.err})
				}
				j := newJournal(s, "new")
				h, ok := j.TakeOver(t.Context(), c.leads)
				if !ok || h.Fence != FenceAll || h.Err == nil {
					t.Errorf("taken over %v, fence %q, error %v", ok, h.Fence, h.Err)
				}
				j.Fenced(nil)
				expectCommit(t, j, c.binds)
				if c.binds {
					return
				}
				s.getErr, s.outcomes = nil, nil // the RBAC rule was added
				if err := j.Commit(t.Context(), "c"); err != nil {
					t.Error(err)
				}
				if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"c"}) {
					t.Errorf("the journal has %v", got)
				}
			})
		})
	}
}

// expectCommit checks whether a commit succeeds.
func expectCommit(t *testing.T, j *Journal, want bool) {
	t.Helper()
	if err := j.Commit(t.Context(), "c"); (err == nil) != want {
		t.Errorf("the commit succeeded: %v, want %v: %v", err == nil, want, err)
	}
}

// A Lease that seems too old, after the wall clock was set or the process was suspended, is
// renewed soon.
func TestTakeOverWhileTheLeaseSeemsTooOld(t *testing.T) {
	notSent := outcome{err: fmt.Errorf("put: %w", leadership.ErrNotLeading)}
	for name, outcomes := range map[string][]outcome{
		"the write is sent after the next renewal":          repeated(maxRefusals+1, notSent),
		"it counts for nothing beside what may yet succeed": append(repeated(maxRefusals-1, outcome{err: forbidden}), notSent, notSent),
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				s.outcomes = outcomes
				h, ok := newJournal(s, "new").TakeOver(t.Context(), elected(7))
				if !ok || h.Err != nil || h.Fence != FenceFresh {
					t.Errorf("taken over %v, fence %q, error %v", ok, h.Fence, h.Err)
				}
				if holder := s.storedContent(t).holder; holder != "new" {
					t.Errorf("the journal was written by %s", holder)
				}
			})
		})
	}
	t.Run("until the leadership ends", func(t *testing.T) {
		withFakeTime(t, func(t *testing.T, s *fakeServer) {
			s.outcomes = repeated(1000, notSent)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if h, ok := newJournal(s, "new").TakeOver(ctx, elected(7)); ok {
				t.Errorf("taken over with fence %q, error %v", h.Fence, h.Err)
			}
		})
	})
	t.Run("and it says nothing about whether a write may still arrive", func(t *testing.T) {
		withFakeTime(t, func(t *testing.T, s *fakeServer) {
			predecessor(t, s, elected(6))
			s.outcomes = append([]outcome{notSent}, repeated(maxRefusals, outcome{err: forbidden})...)
			j := newJournal(s, "new")
			j.TakeOver(t.Context(), elected(7))
			j.Fenced(nil)
			expectCommit(t, j, true)
		})
	})
}

func TestTakeOverEndsWithItsContext(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		s.getErr = errLost
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, ok := newJournal(s, "new").TakeOver(ctx, elected(1)); ok {
			t.Error("the journal was taken over")
		}
	})
}

// The first write may still arrive, and the next leader then relies on the journal.
func TestTakeOverWhileAWriteMayStillArrive(t *testing.T) {
	tooMany := apierrors.NewTooManyRequests("later", 1)
	refused := fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)
	for name, c := range map[string]struct {
		first outcome
		binds bool // a pod without a commit
	}{
		"no answer":          {outcome{late: true, err: errLost}, false},
		"too many requests":  {outcome{err: tooMany}, true},
		"connection refused": {outcome{err: refused}, true},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				predecessor(t, s, elected(6))
				s.outcomes = append([]outcome{c.first}, repeated(1000, outcome{err: forbidden})...)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				j := newJournal(s, "new")
				h, ok := j.TakeOver(ctx, elected(7))
				if !ok || h.Fence != FenceAll {
					t.Errorf("taken over %v, fence %q, error %v", ok, h.Fence, h.Err)
				}
				j.Fenced(nil)
				expectCommit(t, j, c.binds)
				if c.binds {
					return
				}
				if err := s.applyLateWrites(); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				s.outcomes = nil // the RBAC rule was added
				s.mu.Unlock()
				if err := j.Commit(t.Context(), "c"); err != nil {
					t.Error(err)
				}
				if next, _ := newJournal(s, "next").TakeOver(t.Context(), elected(8)); next.Fence != FenceFresh || !next.Pods.Has("c") {
					t.Errorf("the next leader fences %q, and %v", next.Fence, next.Pods)
				}
			})
		})
	}
}
