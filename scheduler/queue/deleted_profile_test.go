package queue

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/fixture"
)

// wantNothingOf checks that the queue keeps nothing by the name of a profile.
func (w *testEnv) expectNothingOf(name string) {
	w.t.Helper()
	if hold, kept := w.Queue.profileHolds[name]; kept {
		w.t.Errorf("the queue still knows why pods of profile %s are held: %s", name, hold.Reason)
	}
	if d, kept := w.Queue.deficits[name]; kept {
		w.t.Errorf("the queue still knows what profile %s owes: %v", name, d.amount)
	}
}

// waits adds a pod of profile p.
func (w *testEnv) addPod(name string) *v1.Pod {
	pod := fixture.Pod(name).SchedulerName("p").Obj()
	w.Add(w.ctx, pod)
	return pod
}

func TestADeletedProfileLeavesNothingInTheQueue(t *testing.T) {
	gone := Hold{Reason: ProfileDeleted, Message: "deleted"}
	for sentence, happens := range map[string]func(w *testEnv){
		"it had no pods": func(w *testEnv) { w.RemoveProfile("p", gone) },
		"its pods were deleted before": func(w *testEnv) {
			w.Delete(w.addPod("a").UID)
			w.RemoveProfile("p", gone)
		},
		"its pods are deleted after it": func(w *testEnv) {
			pod := w.addPod("a")
			w.RemoveProfile("p", gone)
			w.Delete(pod.UID)
		},
		"its last pod is bound after it": func(w *testEnv) {
			w.addPod("a")
			attempt := w.TryPop()
			w.RemoveProfile("p", gone)
			attempt.Done()
		},
		"its attempts took long": func(w *testEnv) {
			w.RecordLoopTime("p", time.Minute)
			w.RemoveProfile("p", gone)
		},
		"its last attempt takes long, and ends after it": func(w *testEnv) {
			w.RemoveProfile("p", gone)
			w.RecordLoopTime("p", time.Minute)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			happens(w)
			w.expectNothingOf("p")
		})
	}
}

func TestPodsOfADeletedProfileStayHeldWhileAnyIsLeft(t *testing.T) {
	w := newTestEnv(t)
	a, b := w.addPod("a"), w.addPod("b")
	attempt := w.TryPop()
	other := b
	if attempt.Pod.UID == b.UID {
		other = a
	}
	w.RemoveProfile("p", Hold{Reason: ProfileDeleted, Message: "deleted"})
	w.Delete(other.UID)
	attempt.Failed(w.ctx)
	if hold, _ := w.HoldOf(attempt.Pod.UID); hold.Reason != ProfileDeleted {
		t.Errorf("a pod that comes back after its profile was deleted is held for %q, want %s", hold.Reason, ProfileDeleted)
	}
	w.Delete(attempt.Pod.UID)
	w.expectNothingOf("p")
}
