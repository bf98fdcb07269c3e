package queue

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/fixture"
)

// expectNothingOf checks that the queue stores nothing by the name of a profile.
func (w *testEnv) expectNothingOf(name string) {
	w.t.Helper()
	if hold, found := w.Queue.profileHolds[name]; found {
		w.t.Errorf("the queue still stores why pods of profile %s are held: %s", name, hold.Reason)
	}
	if d, found := w.Queue.deficits[name]; found {
		w.t.Errorf("the queue still stores the deficit of profile %s: %v", name, d.amount)
	}
}

// addPod adds a pod of profile p.
func (w *testEnv) addPod(name string) *v1.Pod {
	pod := fixture.Pod(name).SchedulerName("p").Obj()
	w.Add(w.ctx, pod)
	return pod
}

func TestADeletedProfileLeavesNothingInTheQueue(t *testing.T) {
	deleted := Hold{Reason: ProfileDeleted, Message: "deleted"}
	for sentence, history := range map[string]func(w *testEnv){
		"it had no pods": func(w *testEnv) { w.RemoveProfile("p", deleted) },
		"its pods were deleted before": func(w *testEnv) {
			w.Delete(w.addPod("a").UID)
			w.RemoveProfile("p", deleted)
		},
		"its pods are deleted afterwards": func(w *testEnv) {
			pod := w.addPod("a")
			w.RemoveProfile("p", deleted)
			w.Delete(pod.UID)
		},
		"its last pod is bound afterwards": func(w *testEnv) {
			w.addPod("a")
			attempt := w.TryPop()
			w.RemoveProfile("p", deleted)
			attempt.Done()
		},
		"it has a deficit": func(w *testEnv) {
			w.RecordLoopTime("p", time.Minute)
			w.RemoveProfile("p", deleted)
		},
		"its last attempt is slow and ends afterwards": func(w *testEnv) {
			w.RemoveProfile("p", deleted)
			w.RecordLoopTime("p", time.Minute)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
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
		t.Errorf("a pod whose attempt ends after its profile was deleted is held for %q, want %s", hold.Reason, ProfileDeleted)
	}
	w.Delete(attempt.Pod.UID)
	w.expectNothingOf("p")
}
