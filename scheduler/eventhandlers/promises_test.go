package eventhandlers

import (
	"cmp"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/fixture"
)

// notesRoom is the hint of Room: it wants to know where.
func (w *testEnv) recordFreedNode(_ klog.Logger, _ *v1.Pod, left, _ any) (fwk.QueueingHint, error) {
	pod := left.(*v1.Pod)
	w.freed = append(w.freed, cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName))
	return fwk.Queue, nil
}

// promises keeps room on a node for a pod of which that is not known outside.
func (w *testEnv) nominate(pod *fixture.PodBuilder, node string) {
	w.t.Helper()
	info, err := framework.NewPodInfo(pod.Obj())
	if err != nil {
		w.t.Fatal(err)
	}
	w.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
}

// Room that becomes free is told of with the node where it is, whatever the
// newest version of the pod says that had it.
func TestNodeOfFreedResources(t *testing.T) {
	for sentence, c := range map[string]struct {
		history func(w *testEnv)
		freed   []string
	}{
		"an assumed pod is deleted of which nobody ever heard that it has a node": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").Obj())
			info, _ := framework.NewPodInfo(unscheduledPod("a").Obj())
			if err := w.cache.AssumePod(info, "n"); err != nil {
				w.t.Fatal(err)
			}
			w.podDeleted(unscheduledPod("a").Obj())
		}, []string{"n"}},
		"a pod is deleted before its status tells what it was promised": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podDeleted(unscheduledPod("a").Obj())
		}, []string{"n"}},
		"a pod is bound before its status tells what it was promised elsewhere": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").On("m")))
		}, []string{"n"}},
		"a pod's status tells late that it was promised, and tells another promise in time": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.nominate(unscheduledPod("a"), "m")
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("m")))
		}, []string{"n"}},
		"what a pod was promised is told late, and nothing is free": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n")))
		}, nil},
		"the promise ends of a pod whose profile is gone": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a")))
		}, []string{"n"}},
		"a pod that was promised room begins to be deleted": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n").Terminating()))
		}, []string{"n"}},
		"a pod begins to be deleted before its status tells what it was promised": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").Obj())
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Terminating()))
		}, []string{"n"}},
		"a pod begins to be deleted whose profile is gone": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n").Terminating()))
		}, []string{"n"}},
		"a pod changes that was promised room by somebody else": {func(w *testEnv) {
			w.podUpdated(fixture.Pod("a").SchedulerName("other").NominatedNodeName("n").Obj(), newerVersion(fixture.Pod("a").SchedulerName("other").NominatedNodeName("n").Label("x", "y")))
		}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.queue.SetProfile(t.Context(), "q", w.rules())
			w.podAdded(fixture.Pod("s").SchedulerName("q").Obj())
			w.queue.TryPop().Refused(t.Context(), sets.New("Room"), nil)
			c.history(w)
			if !slices.Equal(w.freed, c.freed) {
				t.Errorf("room is said to be free on %q, want %q", w.freed, c.freed)
			}
			if slices.ContainsFunc(c.freed, func(node string) bool { return len(w.cache.NominatedPodsForNode(node)) > 0 }) {
				t.Error("and still promised")
			}
		})
	}
}
