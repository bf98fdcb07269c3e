package eventhandlers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv are EventHandlers between a real cache and a real queue that serves profile
// "p".
type testEnv struct {
	*EventHandlers
	t         *testing.T
	cache     *cache.Cache
	queue     *queue.Queue
	waiting   *framework.WaitingPods
	forgotten []types.UID
	// freed are the nodes of the pods whose deletion the hint of plugin Resources got.
	freed []string
	// nodesSeen is the number of nodes when the hint of plugin Snapshot was called.
	nodesSeen int
}

func newTestEnv(t *testing.T) *testEnv {
	w := &testEnv{
		t: t, cache: cache.New(), queue: queue.New(queue.Options{Clock: clock.RealClock{}}),
		waiting: framework.NewWaitingPods(clock.RealClock{}),
	}
	w.EventHandlers = New(Options{
		PendingPods: &PendingPods{Cache: w.cache, Queue: w.queue, WaitingPods: w.waiting, Log: logr.Discard()},
		Binding:     w,
	})
	w.queue.SetProfile(t.Context(), "p", w.rules())
	return w
}

// Observe and Forget implement Binding.
func (w *testEnv) Observe(*v1.Pod)      {}
func (w *testEnv) Forget(uid types.UID) { w.forgotten = append(w.forgotten, uid) }

func (w *testEnv) rules() *queue.Rules {
	return &queue.Rules{
		Less:       func(a, b fwk.QueuedEntityInfo) bool { return a.GetPriority() > b.GetPriority() },
		Hold:       func(*v1.Pod) queue.Hold { return queue.Hold{} },
		PreEnqueue: func(context.Context, *v1.Pod, string) string { return "" },
		Hints: []queue.Hint{
			{Plugin: "Resources", Event: assignedPodDelete, Fn: w.recordFreedNode},
			{
				Plugin: "NodeName", Event: assignedPodDelete,
				Fn: func(_ klog.Logger, _ *v1.Pod, deleted, _ any) (fwk.QueueingHint, error) {
					if deleted.(*v1.Pod).Spec.NodeName == "" {
						return fwk.QueueSkip, nil
					}
					return fwk.Queue, nil
				},
			},
			{Plugin: "Affinity", Event: assignedPodAdd},
			{Plugin: "Labels", Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}},
			{Plugin: "Terminating", Event: podTerminating},
			{
				Plugin: "Snapshot", Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete},
				Fn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
					w.nodesSeen = w.cache.UpdateSnapshot().Len()
					return fwk.Queue, nil
				},
			},
			{Plugin: "Nodes", Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel}},
		},
		InitialBackoff: time.Hour, MaxBackoff: time.Hour,
	}
}

func unscheduledPod(name string) *fixture.PodBuilder { return fixture.Pod(name).SchedulerName("p") }

// newerVersion returns the builder's pod at a later resource version.
func newerVersion(b *fixture.PodBuilder) *v1.Pod {
	return b.Mutate(func(p *v1.Pod) { p.ResourceVersion = "2" }).Obj()
}

// addUnschedulable adds a pod that a plugin has refused.
func (w *testEnv) addUnschedulable(name, plugin string, priority int32) {
	w.t.Helper()
	w.podAdded(unscheduledPod(name).Priority(priority).Obj())
	w.queue.TryPop().Refused(w.t.Context(), sets.New(plugin), nil)
}

// wokenPods returns the pods that are not unschedulable.
func (w *testEnv) wokenPods() []string {
	var names []string
	for uid, place := range w.queue.Places() {
		if place != queue.Unschedulable {
			names = append(names, string(uid))
		}
	}
	slices.Sort(names)
	return names
}

func (w *testEnv) expect(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var histories = map[string]func(w *testEnv){
	"an assigned pod is added to the cache and wakes pods with affinity": func(w *testEnv) {
		w.addUnschedulable("s", "Affinity", 0)
		w.podAdded(unscheduledPod("a").On("n").Obj())
		pods, _ := w.cache.Sizes()
		w.expect("pods", pods, 1)
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/s"}), true)
	},
	"a bound pod leaves the queue and its nomination is deleted": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
		w.expect("nominations", w.cache.Nominations(), 1)
		w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").On("n")))
		w.expect("nominations", w.cache.Nominations(), 0)
		w.expect("queue", len(w.queue.Places()), 0)
		w.expect("forgotten", slices.Equal(w.forgotten, []types.UID{"default/a"}), true)
	},
	"an assumed pod that the informer still has without a node is not queued": func(w *testEnv) {
		info, _ := framework.NewPodInfo(unscheduledPod("a").Obj())
		if err := w.cache.AssumePod(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.podAdded(unscheduledPod("a").Obj())
		w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Label("x", "y")))
		w.expect("queue", len(w.queue.Places()), 0)
	},
	"an update of an assumed pod reaches its attempt": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").Obj())
		attempt := w.queue.TryPop()
		info, _ := framework.NewPodInfo(attempt.Pod)
		if err := w.cache.AssumePod(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Label("x", "y")))
		pod, _ := attempt.Current()
		w.expect("label", pod.Labels["x"], "y")
	},
	"a resync wakes no pod": func(w *testEnv) {
		w.addUnschedulable("s", "Other", 0)
		w.podUpdated(unscheduledPod("s").Obj(), unscheduledPod("s").Obj())
		w.expect("woken", len(w.wokenPods()), 0)
	},
	"a pod whose deletion and re-creation were missed is another pod": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").Obj())
		w.podUpdated(unscheduledPod("a").Obj(), unscheduledPod("a").UID("another").Obj())
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"another"}), true)
	},
	"a deletion wakes pods that need resources": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").On("n").Obj())
		w.addUnschedulable("s", "Resources", 0)
		handleDeleted(toolscache.DeletedFinalStateUnknown{Obj: unscheduledPod("a").Obj()}, w.podDeleted)
		pods, _ := w.cache.Sizes()
		w.expect("pods", pods, 0)
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/s"}), true)
	},
	"the deletion of a pending pod does not": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").Obj())
		w.addUnschedulableFirst("s", "Resources")
		w.podDeleted(unscheduledPod("a").Obj())
		w.expect("woken", len(w.wokenPods()), 0)
	},
	"the deletion of an assumed pod is an event with its node": func(w *testEnv) {
		info, _ := framework.NewPodInfo(unscheduledPod("a").Obj())
		if err := w.cache.AssumePod(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.addUnschedulable("s", "NodeName", 0)
		w.podDeleted(unscheduledPod("a").Obj())
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/s"}), true)
	},
	"the deletion of a nominated pod wakes pods of no higher priority": func(w *testEnv) {
		w.addUnschedulable("low", "Resources", 1)
		w.addUnschedulable("equal", "Resources", 5)
		w.addUnschedulable("high", "Resources", 9)
		w.podDeleted(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj())
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/equal", "default/low"}), true)
	},
	"a changed nomination frees the old node": func(w *testEnv) {
		w.addUnschedulable("low", "Resources", 1)
		w.podAdded(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj())
		w.podUpdated(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").Priority(5).NominatedNodeName("m")))
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/a", "default/low"}), true)
		w.expect("nominated for n", len(w.cache.NominatedPodsForNode("n")), 0)
		w.expect("nominated for m", len(w.cache.NominatedPodsForNode("m")), 1)
	},
	"a nominated pod that is bound to another node frees the nominated one": func(w *testEnv) {
		w.addUnschedulable("low", "Resources", 1)
		w.podAdded(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj())
		w.podUpdated(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").Priority(5).NominatedNodeName("n").On("m")))
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/low"}), true)
	},
	"a nominated pod that is bound to the nominated node frees none": func(w *testEnv) {
		w.addUnschedulable("low", "Resources", 1)
		w.podAdded(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj())
		w.podUpdated(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").Priority(5).NominatedNodeName("n").On("n")))
		w.expect("woken", len(w.wokenPods()), 0)
	},
	"an update of a nominated pod wakes pods of no higher priority": func(w *testEnv) {
		w.addUnschedulable("low", "Labels", 1)
		w.addUnschedulable("high", "Labels", 9)
		w.podAdded(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj())
		w.podUpdated(unscheduledPod("a").Priority(5).NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a").Priority(5).NominatedNodeName("n").Label("x", "y")))
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/a", "default/low"}), true)
	},
	"the begin of a pod's deletion is an event, once": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").On("n").Obj())
		w.addUnschedulable("s", "Terminating", 0)
		w.podUpdated(unscheduledPod("a").On("n").Terminating().Obj(), newerVersion(unscheduledPod("a").On("n").Terminating()))
		w.expect("woken", len(w.wokenPods()), 0)
		w.podUpdated(unscheduledPod("a").On("n").Obj(), newerVersion(unscheduledPod("a").On("n").Terminating()))
		w.expect("woken", len(w.wokenPods()), 1)
	},
	"a pod that the deletion of a node wakes does not see the node": func(w *testEnv) {
		w.nodeAdded(fixture.Node("n").Obj())
		w.addUnschedulable("s", "Snapshot", 0)
		w.nodeDeleted(fixture.Node("n").Obj())
		w.expect("nodes when the hint was called", w.nodesSeen, 0)
	},
	"a nomination that ends or changes after its profile was removed is deleted": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").NominatedNodeName("n").Obj())
		w.podAdded(unscheduledPod("b").NominatedNodeName("n").Obj())
		w.podAdded(unscheduledPod("c").NominatedNodeName("n").Obj())
		w.queue.RemoveProfile("p", queue.Hold{Reason: queue.ProfileDeleted})
		w.podUpdated(unscheduledPod("a").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("a")))
		w.podUpdated(unscheduledPod("b").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("b").NominatedNodeName("m")))
		w.podUpdated(unscheduledPod("c").NominatedNodeName("n").Obj(), newerVersion(unscheduledPod("c").NominatedNodeName("n").Label("x", "y")))
		w.expect("nominations", w.cache.Nominations(), 1)
		w.expect("node of c", w.cache.NominatedNode("default/c"), "n")
	},
	"the nomination of a pod of another scheduler is ignored": func(w *testEnv) {
		w.podAdded(fixture.Pod("a").SchedulerName("other").NominatedNodeName("n").Obj())
		w.expect("nominations", w.cache.Nominations(), 0)
	},
	"a pod that waits on Permit is rejected when its deletion begins": func(w *testEnv) {
		info, _ := framework.NewPodInfo(unscheduledPod("a").Obj())
		if err := w.cache.AssumePod(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.waiting.Add(nil, unscheduledPod("a").Obj(), map[string]time.Duration{"X": time.Hour})
		p := w.waiting.Get("default/a")
		w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Terminating()))
		w.expect("rejected again", p.Reject("X", "late"), false)
		w.expect("message", w.waiting.Await(w.t.Context(), "default/a").Message(), "the pod was deleted")
	},
	"an assumed pod past Permit frees its node when its deletion begins": func(w *testEnv) {
		w.podAdded(unscheduledPod("a").Obj())
		attempt := w.queue.TryPop()
		info, _ := framework.NewPodInfo(attempt.Pod)
		if err := w.cache.AssumePod(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.addUnschedulable("s", "NodeName", 0)
		w.podUpdated(unscheduledPod("a").Obj(), newerVersion(unscheduledPod("a").Terminating()))
		_, assumed := w.cache.Sizes()
		w.expect("assumed pods", assumed, 0)
		w.expect("woken", slices.Equal(w.wokenPods(), []string{"default/a", "default/s"}), true)
		w.expect("forgotten again by its binding cycle", w.cache.ForgetPod("default/a"), false)
		attempt.Done()
	},
	"a node event wakes pods whose rejector registered for it": func(w *testEnv) {
		for _, change := range []func(){
			func() { w.nodeAdded(fixture.Node("n").Obj()) },
			func() { w.nodeUpdated(fixture.Node("n").Obj(), fixture.Node("n").Label("a", "b").Obj()) },
			func() { w.nodeDeleted(fixture.Node("n").Obj()) },
		} {
			w.addUnschedulable("s", "Nodes", 0)
			change()
			w.expect("woken", len(w.wokenPods()), 1)
			w.podDeleted(unscheduledPod("s").Obj())
		}
		w.expect("nodes", w.cache.UpdateSnapshot().Len(), 0)
	},
	"a heartbeat wakes no pod": func(w *testEnv) {
		w.addUnschedulable("s", "Nodes", 0)
		w.nodeUpdated(fixture.Node("n").Obj(), fixture.Node("n").Mutate(func(n *v1.Node) { n.ResourceVersion = "9" }).Obj())
		w.expect("woken", len(w.wokenPods()), 0)
	},
}

// addUnschedulableFirst is addUnschedulable while another pod is active.
func (w *testEnv) addUnschedulableFirst(name, plugin string) {
	w.t.Helper()
	w.podAdded(unscheduledPod(name).Priority(99).Obj())
	w.queue.TryPop().Refused(w.t.Context(), sets.New(plugin), nil)
}

func TestHistories(t *testing.T) {
	for name, history := range histories {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
			if err := w.queue.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
