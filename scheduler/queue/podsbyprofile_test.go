package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// TestTwoIterationsOverOneProfileSkipNoPod runs two iterations in turns, slice by slice,
// each for another change: the pods of both changes are released.
func TestTwoIterationsOverOneProfileSkipNoPod(t *testing.T) {
	allow := func(w *testEnv, namespace string) {
		w.Reconsider(w.ctx, "p", func(p *v1.Pod) bool { return p.Namespace == namespace })
	}
	for name, second := range map[string]func(w *testEnv){
		"another namespace becomes allowed": func(w *testEnv) { allow(w, "b") },
		"the rules change":                  func(w *testEnv) { w.rules.Key.Holds = "other"; w.setProfile() },
		"the profile is removed and added":  func(w *testEnv) { w.RemoveProfile("p", Hold{Reason: ProfileDeleted}); w.setProfile() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			// testEnv's own functions count without a lock.
			w.rules.PreEnqueue = func(context.Context, *v1.Pod, string) string { return "" }
			var allowed atomic.Bool
			w.rules.Hold = func(*v1.Pod) Hold {
				if allowed.Load() {
					return Hold{}
				}
				return Hold{Reason: NamespaceNotAllowed}
			}
			w.setProfile()
			for i := range 2000 {
				w.Add(w.ctx, fixture.Pod(fmt.Sprintf("%s/%d", []string{"a", "b"}[i%2], i)).SchedulerName("p").Obj())
			}
			allowed.Store(true)
			runInTurns(w, func() { allow(w, "a") }, func() { second(w) })
			w.expectAt(Held)
		})
	}
}

// runInTurns runs two iterations concurrently and lets each go on for one slice at a
// time, until one of them ends.
func runInTurns(w *testEnv, iterations ...func()) {
	turn := make(chan struct{})
	done := make(chan struct{})
	w.yield = func() {
		select {
		case turn <- struct{}{}:
		case <-turn:
		case <-done:
		}
	}
	var both sync.WaitGroup
	var once sync.Once
	for _, iterate := range iterations {
		both.Go(func() {
			defer once.Do(func() { close(done) })
			iterate()
		})
	}
	both.Wait()
}

// TestAnIterationVisitsEachRemainingPodOnce mixes iterations, additions and removals at
// random: each iteration visits, once and in order, the pods that there were when it
// began and that are not removed before their turn.
func TestAnIterationVisitsEachRemainingPodOnce(t *testing.T) {
	type iteration struct {
		*podIterator
		// due are the pods that it has yet to visit, in order.
		due []uint64
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := profileIndex{profiles: map[string]*profilePods{}}
		var pods []*Entity
		var iterations []*iteration
		for range 300 {
			switch n := rng.IntN(10); {
			case n < 4:
				p := &Entity{profile: "p"}
				r.add(p)
				pods = append(pods, p)
			case n < 6 && len(pods) > 0:
				i := rng.IntN(len(pods))
				removed := pods[i]
				r.remove(removed)
				pods = append(pods[:i:i], pods[i+1:]...)
				for _, w := range iterations {
					for j, number := range w.due {
						if number == removed.number {
							w.due = append(w.due[:j:j], w.due[j+1:]...)
							break
						}
					}
				}
			case n < 7 && len(iterations) < 5:
				if w := r.iterate("p"); w != nil {
					g := &iteration{podIterator: w}
					for _, p := range pods {
						g.due = append(g.due, p.number)
					}
					iterations = append(iterations, g)
				}
			case len(iterations) > 0:
				i := rng.IntN(len(iterations))
				w := iterations[i]
				size := 1 + rng.IntN(4)
				var got []uint64
				for _, p := range w.next(size) {
					got = append(got, p.number)
				}
				want := w.due[:min(size, len(w.due))]
				w.due = w.due[len(want):]
				if len(want) == 0 {
					want = nil
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d: an iteration visits (-want +got):\n%s", seed, diff)
				}
				if w.position == nil {
					if len(w.due) > 0 {
						t.Fatalf("seed %d: an iteration ended before %d pods were visited", seed, len(w.due))
					}
					iterations = append(iterations[:i:i], iterations[i+1:]...)
				}
			}
		}
		for _, w := range iterations {
			for w.position != nil {
				w.next(100)
			}
		}
		for _, p := range pods {
			r.remove(p)
		}
		if len(r.profiles) > 0 {
			t.Fatalf("seed %d: %d profiles are left over", seed, len(r.profiles))
		}
	}
}
