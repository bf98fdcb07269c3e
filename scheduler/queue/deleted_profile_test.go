package queue

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/fixture"
)

// wantNothingOf checks that the queue keeps nothing by the name of a profile.
func (w *world) wantNothingOf(name string) {
	w.t.Helper()
	if hold, kept := w.Queue.abandoned[name]; kept {
		w.t.Errorf("the queue still knows why pods of profile %s are held: %s", name, hold.Reason)
	}
	if d, kept := w.Queue.debts[name]; kept {
		w.t.Errorf("the queue still knows what profile %s owes: %v", name, d.owed)
	}
}

// waits adds a pod of profile p.
func (w *world) waits(name string) *v1.Pod {
	pod := fixture.Pod(name).Scheduler("p").Obj()
	w.Add(w.ctx, pod)
	return pod
}

func TestADeletedProfileLeavesNothingInTheQueue(t *testing.T) {
	gone := Hold{Reason: ProfileDeleted, Message: "deleted"}
	for sentence, happens := range map[string]func(w *world){
		"it had no pods": func(w *world) { w.Abandon("p", gone) },
		"its pods were deleted before": func(w *world) {
			w.Delete(w.waits("a").UID)
			w.Abandon("p", gone)
		},
		"its pods are deleted after it": func(w *world) {
			pod := w.waits("a")
			w.Abandon("p", gone)
			w.Delete(pod.UID)
		},
		"its last pod is bound after it": func(w *world) {
			w.waits("a")
			attempt := w.TryPop()
			w.Abandon("p", gone)
			attempt.Done()
		},
		"its attempts took long": func(w *world) {
			w.Spent("p", time.Minute)
			w.Abandon("p", gone)
		},
		"its last attempt takes long, and ends after it": func(w *world) {
			w.Abandon("p", gone)
			w.Spent("p", time.Minute)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			happens(w)
			w.wantNothingOf("p")
		})
	}
}

func TestPodsOfADeletedProfileStayHeldWhileAnyIsLeft(t *testing.T) {
	w := newWorld(t)
	a, b := w.waits("a"), w.waits("b")
	attempt := w.TryPop()
	other := b
	if attempt.Pod.UID == b.UID {
		other = a
	}
	w.Abandon("p", Hold{Reason: ProfileDeleted, Message: "deleted"})
	w.Delete(other.UID)
	attempt.Failed(w.ctx)
	if hold, _ := w.HoldOf(attempt.Pod.UID); hold.Reason != ProfileDeleted {
		t.Errorf("a pod that comes back after its profile was deleted is held for %q, want %s", hold.Reason, ProfileDeleted)
	}
	w.Delete(attempt.Pod.UID)
	w.wantNothingOf("p")
}
