package framework

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/test/support/fixture"
)

// A pod that was rejected gives its node back soon: no plugin counts it until then.
func TestAPodThatWasRejectedDoesNotWait(t *testing.T) {
	w, f, pod := NewWaitingPods(clock.RealClock{}), &Framework{}, fixture.Pod("a").Obj()
	f.WaitingPods = w
	w.Add(f, pod, map[string]time.Duration{"Plugin": time.Hour})
	count := func() (n int) {
		w.Each(func(fwk.WaitingPod) { n++ })
		return n
	}
	if !w.Has(pod.UID) || count() != 1 || f.LeavesPermit(pod.UID, "Plugin", "") {
		t.Errorf("a pod that waits is not listed: %d are", count())
	}
	w.Get(pod.UID).Reject("Plugin", "no")
	if w.Has(pod.UID) || count() != 0 || !f.LeavesPermit(pod.UID, "Plugin", "") {
		t.Errorf("a pod that was rejected is listed: %d are", count())
	}
	w.Remove(pod.UID)
	if f.LeavesPermit(pod.UID, "Plugin", "") {
		t.Error("a pod that gave its node back still leaves")
	}
}
