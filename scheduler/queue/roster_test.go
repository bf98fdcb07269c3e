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

	"github.com/berthdev/berth/test/fixture"
)

// TestTwoWalksOverOneProfileSkipNoPod lets two walks take turns, slice by slice, each
// with another question: the pods of both are let go.
func TestTwoIterationsOverOneProfileSkipNoPod(t *testing.T) {
	allow := func(w *testEnv, namespace string) {
		w.Reconsider(w.ctx, "p", func(p *v1.Pod) bool { return p.Namespace == namespace })
	}
	for sentence, second := range map[string]func(w *testEnv){
		"another namespace that is allowed":  func(w *testEnv) { allow(w, "b") },
		"new rules":                          func(w *testEnv) { w.rules.Key.Holds = "other"; w.setProfile() },
		"a profile that goes and comes back": func(w *testEnv) { w.RemoveProfile("p", Hold{Reason: ProfileDeleted}); w.setProfile() },
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			// What the world counts it counts without a lock.
			w.onHold, w.rules.PreEnqueue = nil, func(context.Context, *v1.Pod, string) string { return "" }
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
			if left := len(w.HeldPods()); left > 0 {
				t.Errorf("%d pods are still held", left)
			}
			w.check()
		})
	}
}

// takeTurns runs two walks beside each other and lets each go on for one slice at a
// time, until one is over.
func runInTurns(w *testEnv, walks ...func()) {
	meet := make(chan struct{})
	over := make(chan struct{})
	w.yield = func() {
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-over:
		}
	}
	var both sync.WaitGroup
	var once sync.Once
	for _, walk := range walks {
		both.Go(func() {
			defer once.Do(func() { close(over) })
			walk()
		})
	}
	both.Wait()
}

// TestAWalkVisitsEachPodThatStays lets walks, additions and removals follow each other
// at random: each walk visits, once and in order, the pods that there were when it
// began and that are not removed before their turn.
func TestAnIterationVisitsEachRemainingPodOnce(t *testing.T) {
	type going struct {
		*podIterator
		// due are the pods that it must still visit, in order.
		due []uint64
	}
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r := profileIndex{profiles: map[string]*profilePods{}}
		var pods []*Pod
		var walks []*going
		for range 300 {
			switch n := dice.IntN(10); {
			case n < 4:
				p := &Pod{profile: "p"}
				r.add(p)
				pods = append(pods, p)
			case n < 6 && len(pods) > 0:
				i := dice.IntN(len(pods))
				gone := pods[i]
				r.remove(gone)
				pods = append(pods[:i:i], pods[i+1:]...)
				for _, w := range walks {
					for j, number := range w.due {
						if number == gone.number {
							w.due = append(w.due[:j:j], w.due[j+1:]...)
							break
						}
					}
				}
			case n < 7 && len(walks) < 5:
				if w := r.iterate("p"); w != nil {
					g := &going{podIterator: w}
					for _, p := range pods {
						g.due = append(g.due, p.number)
					}
					walks = append(walks, g)
				}
			case len(walks) > 0:
				i := dice.IntN(len(walks))
				w := walks[i]
				size := 1 + dice.IntN(4)
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
					t.Fatalf("seed %d: a walk visits (-want +got):\n%s", seed, diff)
				}
				if w.position == nil {
					if len(w.due) > 0 {
						t.Fatalf("seed %d: a walk is over and %d pods were not visited", seed, len(w.due))
					}
					walks = append(walks[:i:i], walks[i+1:]...)
				}
			}
		}
		for _, w := range walks {
			for w.position != nil {
				w.next(100)
			}
		}
		for _, p := range pods {
			r.remove(p)
		}
		if len(r.profiles) > 0 {
			t.Fatalf("seed %d: %d profiles are left behind", seed, len(r.profiles))
		}
	}
}
