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
	"github.com/berthdev/berth/test/support/fixture"
)

// recordFreedNode is the hint of plugin Resources. It records the node of the deleted
// pod.
func (w *testEnv) recordFreedNode(_ klog.Logger, _ *v1.Pod, deleted, _ any) (fwk.QueueingHint, error) {
	pod := deleted.(*v1.Pod)
	w.freed = append(w.freed, cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName))
	return fwk.Queue, nil
}

// nominate adds a nomination to the cache that the pod's status does not show.
func (w *testEnv) nominate(pod *fixture.PodBuilder, node string) {
	w.t.Helper()
	info, err := framework.NewPodInfo(pod.Obj())
	if err != nil {
		w.t.Fatal(err)
	}
	w.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
}

// A change of a pod that is nominated in the cache alone wakes pods as one of a pod whose status says
// so: hints ignore what happens to a pod without a node.
func TestAChangeOfAPodThatIsNominatedInTheCacheNamesItsNode(t *testing.T) {
	w := newTestEnv(t)
	var nodes []string
	rules := w.rules()
	rules.Hints = append(rules.Hints, queue.Hint{
		Plugin: "Labels", Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel},
		Fn: func(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
			nodes = append(nodes, oldObj.(*v1.Pod).Status.NominatedNodeName, newObj.(*v1.Pod).Status.NominatedNodeName)
			return fwk.Queue, nil
		},
	})
	w.queue.SetProfile(t.Context(), "q", rules)
	w.podAdded(fixture.Pod("s").SchedulerName("q").Obj())
	w.queue.TryPop().Refused(t.Context(), sets.New("Labels"), nil)
	w.podAdded(unscheduledPod("a").Obj())
	w.nominate(unscheduledPod("a"), "n")
	w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Label("x", "y")))
	if !slices.Equal(nodes, []string{"n", "n"}) {
		t.Errorf("the hint got pods that are nominated for %q, want n before and after", nodes)
	}
}

// An event about freed resources names the node that has them, whatever the newest
// version of the pod says.
func TestNodeOfFreedResources(t *testing.T) {
	for name, c := range map[string]struct {
		history func(w *testEnv)
		freed   []string
	}{
		"an assumed pod is deleted before the informer saw its node": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").Obj())
			info, _ := framework.NewPodInfo(unscheduledPod("a").Obj())
			if err := w.cache.AssumePod(info, "n"); err != nil {
				w.t.Fatal(err)
			}
			w.podDeleted(unscheduledPod("a").Obj())
		}, []string{"n"}},
		"a pod is deleted before its status shows the nomination": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podDeleted(unscheduledPod("a").Obj())
		}, []string{"n"}},
		"a pod is bound to another node before its status shows the nomination": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").On("m")))
		}, []string{"n"}},
		"the status shows an old nomination, and then the new one": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.nominate(unscheduledPod("a"), "m")
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("m")))
		}, []string{"n"}},
		"the status shows the nomination late": {func(w *testEnv) {
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n")))
		}, nil},
		"the nomination ends after the profile was removed": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a")))
		}, []string{"n"}},
		"the deletion of a nominated pod begins": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n").Terminating()))
		}, []string{"n"}},
		"the deletion of a pod begins before its status shows the nomination": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").Obj())
			w.nominate(unscheduledPod("a"), "n")
			w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Terminating()))
		}, []string{"n"}},
		"the deletion of a nominated pod begins after the profile was removed": {func(w *testEnv) {
			w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
			w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
			w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n").Terminating()))
		}, []string{"n"}},
		"a pod that another scheduler nominated is updated": {func(w *testEnv) {
			w.podUpdated(fixture.Pod("a").SchedulerName("other").NominatedNodeName("n").Obj(), newerVersion(fixture.Pod("a").SchedulerName("other").NominatedNodeName("n").Label("x", "y")))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.queue.SetProfile(t.Context(), "q", w.rules())
			w.podAdded(fixture.Pod("s").SchedulerName("q").Obj())
			w.queue.TryPop().Refused(t.Context(), sets.New("Resources"), nil)
			c.history(w)
			if !slices.Equal(w.freed, c.freed) {
				t.Errorf("resources were freed on %q, want %q", w.freed, c.freed)
			}
			if slices.ContainsFunc(c.freed, func(node string) bool { return len(w.cache.NominatedPodsForNode(node)) > 0 }) {
				t.Error("the nomination is still there")
			}
		})
	}
}

// Otherwise the node would have more free resources without an event that says so.
func TestANominationThatTheStatusShowsLateOutlivesTheProfile(t *testing.T) {
	w := newTestEnv(t)
	w.podAdded(unscheduledPod("a").Obj())
	w.nominate(unscheduledPod("a"), "n")
	w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
	w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").NominatedNodeName("n")))
	if node := w.cache.NominatedNode(unscheduledPod("a").Obj().UID); node != "n" {
		t.Errorf("the pod is nominated for %q, want n, as its status says", node)
	}
}
