package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/fixture"
)

// TestTwoWalksOverOneProfileSkipNoPod begins a second walk in the middle of a first
// one, each with another question: all pods of both are let go.
func TestTwoWalksOverOneProfileSkipNoPod(t *testing.T) {
	held := Hold{Reason: NamespaceNotAllowed}
	allow := func(w *world, namespace string) {
		w.Reconsider(w.ctx, "p", func(p *v1.Pod) bool { return p.Namespace == namespace })
	}
	for sentence, second := range map[string]func(w *world){
		"another namespace that is allowed": func(w *world) { allow(w, "b") },
		"new rules":                         func(w *world) { w.rules.Makeup.Holds = "other"; w.adopt() },
		"a profile that goes and comes back": func(w *world) {
			w.Abandon("p", Hold{Reason: ProfileDeleted})
			w.adopt()
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			allowed := map[string]bool{}
			w.rules.Hold = func(p *v1.Pod) Hold {
				if allowed[p.Namespace] {
					return Hold{}
				}
				return held
			}
			w.adopt()
			for i := range 10 * sliceOfPods {
				pod := fixture.Pod(fmt.Sprintf("%s/%d", []string{"a", "b"}[i%2], i)).Scheduler("p").Obj()
				w.Add(w.ctx, pod)
			}
			allowed["a"], allowed["b"] = true, true
			turns := 0
			w.yield = func() {
				if turns++; turns == 3 {
					second(w)
				}
			}
			allow(w, "a")
			if turns < 4 {
				t.Fatalf("the second walk never began: %d turns", turns)
			}
			if left := len(w.Held()); left > 0 {
				t.Errorf("%d pods are still held", left)
			}
			w.check()
		})
	}
}

// TestAWalkVisitsEachPodThatStays lets walks, additions and removals follow each other
// at random: each walk visits, once and in order, the pods that there were when it
// began and that are not removed before their turn.
func TestAWalkVisitsEachPodThatStays(t *testing.T) {
	type going struct {
		*podWalk
		// due are the pods that it must still visit, in order.
		due []uint64
	}
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r := roster{profiles: map[string]*profilePods{}}
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
				if w := r.walk("p"); w != nil {
					g := &going{podWalk: w}
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
				if w.at == nil {
					if len(w.due) > 0 {
						t.Fatalf("seed %d: a walk is over and %d pods were not visited", seed, len(w.due))
					}
					walks = append(walks[:i:i], walks[i+1:]...)
				}
			}
		}
		for _, w := range walks {
			for w.at != nil {
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
