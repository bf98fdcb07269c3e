package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/leadership"
)

// commitAll commits pods concurrently, and returns the error of each.
func commitAll(t *testing.T, j *Journal, uids ...types.UID) []error {
	t.Helper()
	errs := make([]error, len(uids))
	var all sync.WaitGroup
	for i, uid := range uids {
		all.Go(func() { errs[i] = j.Commit(t.Context(), uid) })
	}
	all.Wait()
	return errs
}

func podUID(i int) types.UID { return types.UID(fmt.Sprintf("%04d", i)) }

func podRange(from, to int) (uids []types.UID) {
	for i := from; i < to; i++ {
		uids = append(uids, podUID(i))
	}
	return uids
}

func TestPodsShareWrites(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		before := s.writes()
		s.block = make(chan struct{})
		results := make(chan []error, 1)
		go func() { results <- commitAll(t, j, podRange(0, 100)...) }()
		synctest.Wait()
		close(s.block)
		if err := errors.Join(<-results...); err != nil {
			t.Fatal(err)
		}
		if n := s.writes() - before; n > 2 {
			t.Errorf("100 pods took %d writes, want those that come during a write to share the next one", n)
		}
		if got := s.storedPods(t); !cmp.Equal(got, podRange(0, 100)) {
			t.Errorf("the journal has %v", got)
		}
	})
}

func TestAPodLeavesWithALaterWrite(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		if err := errors.Join(commitAll(t, j, "a", "b")...); err != nil {
			t.Fatal(err)
		}
		before := s.writes()
		j.Release("a")
		time.Sleep(time.Minute)
		if s.writes() != before {
			t.Error("the removal of a pod was written by itself")
		}
		if err := j.Commit(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"b", "c"}) {
			t.Errorf("the journal has %v", got)
		}
	})
}

func TestACommitEndsOnlyAfterItsWrite(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		if err := j.Commit(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		j.Release("a")
		// The write that is under way removes a. The stored version still has it, but must
		// not be relied on.
		s.block = make(chan struct{})
		b, a := make(chan error, 1), make(chan error, 1)
		go func() { b <- j.Commit(t.Context(), "b") }()
		time.Sleep(time.Second)
		go func() { a <- j.Commit(t.Context(), "a") }()
		synctest.Wait()
		if len(a) > 0 || len(b) > 0 {
			t.Error("a commit ended before its write")
		}
		close(s.block)
		if err := errors.Join(<-a, <-b); err != nil {
			t.Error(err)
		}
		if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("the journal has %v", got)
		}
	})
}

func TestTheJournalIsBounded(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		if err := errors.Join(commitAll(t, j, podRange(0, Capacity)...)...); err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() { next <- j.Commit(t.Context(), "next") }()
		time.Sleep(time.Second)
		if len(next) > 0 || len(s.storedPods(t)) != Capacity {
			t.Fatalf("the journal holds more than %d pods: %d", Capacity, len(s.storedPods(t)))
		}
		j.Release(podUID(7))
		if err := <-next; err != nil {
			t.Error(err)
		}
		begun, before := time.Now(), s.writes()
		for i := range 1000 {
			j.Release(podUID(i % Capacity))
			if err := j.Commit(t.Context(), podUID(1000+i)); err != nil {
				t.Fatal(err)
			}
			j.Release(podUID(1000 + i))
		}
		if n, most := s.writes()-before, int(time.Since(begun)/writeInterval)+1; n > most {
			t.Errorf("%d writes in %v, want at most one each %v", n, time.Since(begun), writeInterval)
		}
	})
}

func TestCommit(t *testing.T) {
	internal := apierrors.NewInternalError(errLost)
	for name, c := range map[string]struct {
		fates  []outcome
		before func(s *fakeServer)
		want   string
	}{
		"a write that fails is retried":                 {fates: []outcome{{err: internal}, {err: internal}}},
		"a write whose answer is lost is retried":       {fates: []outcome{{err: errLost, applied: true}}},
		"a deleted journal is created again":            {before: (*fakeServer).remove},
		"a forbidden write fails":                       {fates: []outcome{{err: forbidden}}, want: "forbidden"},
		"a write of a process that does not lead fails": {fates: []outcome{{err: fmt.Errorf("put: %w", leadership.ErrNotLeading)}}, want: "may not lead any more"},
		"a write that always fails times out":           {fates: repeated(100, outcome{err: internal}), want: "no answer within 15s"},
		"another process wrote the journal":             {before: func(s *fakeServer) { s.stored.Data[holderKey] = "them"; s.stored.ResourceVersion = "99" }, want: "written by another process"},
		"the journal was edited":                        {before: func(s *fakeServer) { s.stored.Data[epochKey] = ""; s.stored.ResourceVersion = "99" }, want: "written by another process, or edited"},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				j := leader(t, s, "us", elected(0))
				if err := j.Commit(t.Context(), "earlier"); err != nil {
					t.Fatal(err)
				}
				if c.before != nil {
					c.before(s)
				}
				s.outcomes = c.fates
				err := j.Commit(t.Context(), "a")
				if c.want == "" {
					if err != nil {
						t.Error(err)
					}
					if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"a", "earlier"}) {
						t.Errorf("the journal has %v", got)
					}
					return
				}
				if !errors.Is(err, ErrNotCommitted) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one that contains %q", err, c.want)
				}
				s.mu.Lock()
				s.outcomes = nil
				s.mu.Unlock()
			})
		})
	}
}

func TestAnIdleJournalIsReportedAsAvailableAfterAFailure(t *testing.T) {
	for name, fates := range map[string][]outcome{
		"that was permanent":                  {{err: forbidden}},
		"for longer than a commit waits":      repeated(20, outcome{err: errLost}),
		"that a later write meets as well":    {{err: forbidden}, {err: forbidden}},
		"that the first write after it meets": {{err: forbidden}, {err: errLost}},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T, s *fakeServer) {
				j := leader(t, s, "us", elected(0))
				s.outcomes = fates
				if err := j.Commit(t.Context(), "a"); !errors.Is(err, ErrNotCommitted) {
					t.Errorf("error %v, want ErrNotCommitted", err)
				}
				if got := availableValue(t); got != 0 {
					t.Errorf("available is %v after a failure", got)
				}
				time.Sleep(3 * probeInterval)
				if got := availableValue(t); got != 1 {
					t.Errorf("available is %v after the journal could be written again", got)
				}
				before := s.writes()
				time.Sleep(time.Hour)
				if n := s.writes() - before; n > 0 {
					t.Errorf("%d writes of an idle journal that is available", n)
				}
			})
		})
	}
}

func TestAProcessThatDoesNotLeadDoesNotProbeItsJournal(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		s.outcomes = append([]outcome{{err: forbidden}}, repeated(100, outcome{err: leadership.ErrNotLeading})...)
		_ = j.Commit(t.Context(), "a") // fails
		before := s.writes()
		time.Sleep(time.Hour)
		if n := s.writes() - before; n != 1 {
			t.Errorf("%d more writes, want one, which is not sent", n)
		}
	})
}

func TestACommitEndsWithItsContext(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		s.block = make(chan struct{})
		defer close(s.block)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := j.Commit(ctx, "a"); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrNotCommitted) {
			t.Errorf("error %v", err)
		}
	})
}

func repeated(n int, o outcome) (outcomes []outcome) {
	for range n {
		outcomes = append(outcomes, o)
	}
	return outcomes
}

func TestACommitEndsWhenItsPodIsForgotten(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(0))
		s.block = make(chan struct{})
		other, gone := make(chan error, 1), make(chan error, 1)
		go func() { other <- j.Commit(t.Context(), "other") }()
		time.Sleep(time.Second)
		go func() { gone <- j.Commit(t.Context(), "gone") }()
		synctest.Wait()
		j.Forget("gone")
		before := s.writes()
		close(s.block)
		begun := time.Now()
		if err := <-gone; !errors.Is(err, ErrNotCommitted) || time.Since(begun) > time.Second {
			t.Errorf("ended after %v with %v", time.Since(begun), err)
		}
		if err := <-other; err != nil {
			t.Error(err)
		}
		if n := s.writes() - before; n > 1 {
			t.Errorf("%d more writes, want one at most", n)
		}
	})
}

func TestReadsOfAForbiddenJournalAreLimited(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		j := leader(t, s, "us", elected(7)) // it has to fence every pod, and to write when it has
		s.outcomes, s.getErr = []outcome{{err: errLost}}, forbidden
		before := s.reads()
		j.Fenced(nil)
		time.Sleep(time.Minute)
		if n := s.reads() - before; n > 60 {
			t.Errorf("read %d times in a minute, want at most once in %v", n, retryPause)
		}
		s.mu.Lock()
		s.getErr = nil
		s.mu.Unlock()
		if err := j.Commit(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if got := s.storedContent(t).fence; got != fenceDone {
			t.Errorf("the journal says fence %q, want done", got)
		}
	})
}

func TestAPodThatCouldNotBeFencedStaysUntilItIsGone(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *fakeServer) {
		predecessor(t, s, elected(6)) // its Bindings of a and b are under way
		j := leader(t, s, "us", elected(7))
		j.Fenced([]types.UID{"a"})
		// This process has tried to bind a as well, and that outcome is certain.
		if err := j.Commit(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		j.Release("a")
		if err := j.Commit(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"a", "c"}) {
			t.Errorf("the journal has %v, want a as well, because the earlier leader's Binding may be under way", got)
		}
		j.Forget("a")
		if err := j.Commit(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		if got := s.storedPods(t); !cmp.Equal(got, []types.UID{"c", "d"}) {
			t.Errorf("the journal has %v", got)
		}
	})
}

// availableValue is the value of the gauge.
func availableValue(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	if err := available.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}
