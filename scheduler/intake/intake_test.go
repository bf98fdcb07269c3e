package intake

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
	"github.com/berthdev/berth/test/fixture"
)

// world is the room between a real cache and a real queue that serves "p".
type world struct {
	*Intake
	t         *testing.T
	cache     *cache.Cache
	queue     *queue.Queue
	waiting   *framework.WaitingPods
	forgotten []types.UID
	// freed are the nodes where room was said to be free, on the pod that left it.
	freed []string
	// looked is how many nodes there were when the hint of Looks was asked.
	looked int
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, cache: cache.New(), queue: queue.New(queue.Options{Clock: clock.RealClock{}}),
		waiting: framework.NewWaitingPods(clock.RealClock{}),
	}
	w.Intake = New(Options{
		Cache: w.cache, Queue: w.queue, Waiting: w.waiting, Log: logr.Discard(),
		Observe: func(*v1.Pod) {},
		Forget:  func(pod *v1.Pod) { w.forgotten = append(w.forgotten, pod.UID) },
	})
	w.queue.Adopt(t.Context(), "p", w.rules())
	return w
}

func (w *world) rules() *queue.Rules {
	return &queue.Rules{
		Less:       func(a, b fwk.QueuedEntityInfo) bool { return a.GetPriority() > b.GetPriority() },
		Hold:       func(*v1.Pod) queue.Hold { return queue.Hold{} },
		PreEnqueue: func(context.Context, *v1.Pod, string) string { return "" },
		Hints: []queue.Hint{
			{Plugin: "Room", Event: assignedPodDelete, Fn: w.notesRoom},
			{
				Plugin: "Place", Event: assignedPodDelete,
				Fn: func(_ klog.Logger, _ *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
					if gone.(*v1.Pod).Spec.NodeName == "" {
						return fwk.QueueSkip, nil
					}
					return fwk.Queue, nil
				},
			},
			{Plugin: "Company", Event: assignedPodAdd},
			{Plugin: "Labels", Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}},
			{Plugin: "Leaving", Event: podTerminating},
			{
				Plugin: "Looks", Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete},
				Fn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
					w.looked = w.cache.Refresh().Len()
					return fwk.Queue, nil
				},
			},
			{Plugin: "Nodes", Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel}},
		},
		InitialBackoff: time.Hour, MaxBackoff: time.Hour,
	}
}

func waiting(name string) *fixture.PodBuilder { return fixture.Pod(name).Scheduler("p") }

// newer is a builder's pod at a later resource version.
func newer(b *fixture.PodBuilder) *v1.Pod {
	return b.Mutate(func(p *v1.Pod) { p.ResourceVersion = "2" }).Obj()
}

// sleeps adds a pod that a plugin has refused.
func (w *world) sleeps(name, plugin string, priority int32) {
	w.t.Helper()
	w.podAdded(waiting(name).Priority(priority).Obj())
	w.queue.TryPop().Refused(w.t.Context(), sets.New(plugin), nil)
}

// awake are the pods that do not sleep.
func (w *world) awake() []string {
	var names []string
	for uid, place := range w.queue.Places() {
		if place != queue.Unschedulable {
			names = append(names, string(uid))
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) want(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var histories = map[string]func(w *world){
	"a pod with a node is counted there and wakes who looks for company": func(w *world) {
		w.sleeps("s", "Company", 0)
		w.podAdded(waiting("a").On("n").Obj())
		pods, _ := w.cache.Sizes()
		w.want("pods", pods, 1)
		w.want("awake", slices.Equal(w.awake(), []string{"default/s"}), true)
	},
	"a pod that is bound leaves the queue, its nomination and its memory": func(w *world) {
		w.podAdded(waiting("a").Nominated("n").Obj())
		w.want("nominations", w.cache.Nominations(), 1)
		w.podUpdated(waiting("a").Nominated("n").Obj(), newer(waiting("a").On("n")))
		w.want("nominations", w.cache.Nominations(), 0)
		w.want("queue", len(w.queue.Places()), 0)
		w.want("forgotten", slices.Equal(w.forgotten, []types.UID{"default/a"}), true)
	},
	"an assumed pod that the informer still holds as waiting is not added": func(w *world) {
		info, _ := framework.NewPodInfo(waiting("a").Obj())
		if err := w.cache.Assume(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.podAdded(waiting("a").Obj())
		w.podUpdated(waiting("a").Obj(), newer(waiting("a").Label("x", "y")))
		w.want("queue", len(w.queue.Places()), 0)
	},
	"an assumed pod that changes is newer when it comes back": func(w *world) {
		w.podAdded(waiting("a").Obj())
		attempt := w.queue.TryPop()
		info, _ := framework.NewPodInfo(attempt.Pod)
		if err := w.cache.Assume(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.podUpdated(waiting("a").Obj(), newer(waiting("a").Label("x", "y")))
		pod, _ := attempt.Current()
		w.want("label", pod.Labels["x"], "y")
	},
	"a resync is no news": func(w *world) {
		w.sleeps("s", "Nobody", 0)
		w.podUpdated(waiting("s").Obj(), waiting("s").Obj())
		w.want("awake", len(w.awake()), 0)
	},
	"a pod that was deleted and came again unseen is another": func(w *world) {
		w.podAdded(waiting("a").Obj())
		w.podUpdated(waiting("a").Obj(), waiting("a").UID("another").Obj())
		w.want("awake", slices.Equal(w.awake(), []string{"another"}), true)
	},
	"a deletion frees room": func(w *world) {
		w.podAdded(waiting("a").On("n").Obj())
		w.sleeps("s", "Room", 0)
		ifKnown(toolscache.DeletedFinalStateUnknown{Obj: waiting("a").Obj()}, w.podDeleted)
		pods, _ := w.cache.Sizes()
		w.want("pods", pods, 0)
		w.want("awake", slices.Equal(w.awake(), []string{"default/s"}), true)
	},
	"the deletion of a waiting pod frees none": func(w *world) {
		w.podAdded(waiting("a").Obj())
		w.sleepsBeside("s", "Room")
		w.podDeleted(waiting("a").Obj())
		w.want("awake", len(w.awake()), 0)
	},
	"the deletion of a pod that is only assumed says on which node": func(w *world) {
		info, _ := framework.NewPodInfo(waiting("a").Obj())
		if err := w.cache.Assume(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.sleeps("s", "Place", 0)
		w.podDeleted(waiting("a").Obj())
		w.want("awake", slices.Equal(w.awake(), []string{"default/s"}), true)
	},
	"a nominated pod that goes wakes those of no higher priority": func(w *world) {
		w.sleeps("low", "Room", 1)
		w.sleeps("equal", "Room", 5)
		w.sleeps("high", "Room", 9)
		w.podDeleted(waiting("a").Priority(5).Nominated("n").Obj())
		w.want("awake", slices.Equal(w.awake(), []string{"default/equal", "default/low"}), true)
	},
	"a nomination that moves returns the room it had": func(w *world) {
		w.sleeps("low", "Room", 1)
		w.podAdded(waiting("a").Priority(5).Nominated("n").Obj())
		w.podUpdated(waiting("a").Priority(5).Nominated("n").Obj(), newer(waiting("a").Priority(5).Nominated("m")))
		w.want("awake", slices.Equal(w.awake(), []string{"default/a", "default/low"}), true)
		w.want("nominated for n", len(w.cache.NominatedPodsForNode("n")), 0)
		w.want("nominated for m", len(w.cache.NominatedPodsForNode("m")), 1)
	},
	"a nominated pod that is bound elsewhere returns the room it had": func(w *world) {
		w.sleeps("low", "Room", 1)
		w.podAdded(waiting("a").Priority(5).Nominated("n").Obj())
		w.podUpdated(waiting("a").Priority(5).Nominated("n").Obj(), newer(waiting("a").Priority(5).Nominated("n").On("m")))
		w.want("awake", slices.Equal(w.awake(), []string{"default/low"}), true)
	},
	"one that is bound where it was nominated returns none": func(w *world) {
		w.sleeps("low", "Room", 1)
		w.podAdded(waiting("a").Priority(5).Nominated("n").Obj())
		w.podUpdated(waiting("a").Priority(5).Nominated("n").Obj(), newer(waiting("a").Priority(5).Nominated("n").On("n")))
		w.want("awake", len(w.awake()), 0)
	},
	"a nominated pod that changes wakes those of no higher priority": func(w *world) {
		w.sleeps("low", "Labels", 1)
		w.sleeps("high", "Labels", 9)
		w.podAdded(waiting("a").Priority(5).Nominated("n").Obj())
		w.podUpdated(waiting("a").Priority(5).Nominated("n").Obj(), newer(waiting("a").Priority(5).Nominated("n").Label("x", "y")))
		w.want("awake", slices.Equal(w.awake(), []string{"default/a", "default/low"}), true)
	},
	"a pod whose deletion begins is told of, once": func(w *world) {
		w.podAdded(waiting("a").On("n").Obj())
		w.sleeps("s", "Leaving", 0)
		w.podUpdated(waiting("a").On("n").Terminating().Obj(), newer(waiting("a").On("n").Terminating()))
		w.want("awake", len(w.awake()), 0)
		w.podUpdated(waiting("a").On("n").Obj(), newer(waiting("a").On("n").Terminating()))
		w.want("awake", len(w.awake()), 1)
	},
	"who is woken by a node that goes does not find it": func(w *world) {
		w.nodeAdded(fixture.Node("n").Obj())
		w.sleeps("s", "Looks", 0)
		w.nodeDeleted(fixture.Node("n").Obj())
		w.want("nodes when the hint was asked", w.looked, 0)
	},
	"a nomination that ends or moves while its profile is gone is not kept": func(w *world) {
		w.podAdded(waiting("a").Nominated("n").Obj())
		w.podAdded(waiting("b").Nominated("n").Obj())
		w.podAdded(waiting("c").Nominated("n").Obj())
		w.queue.Abandon("p", queue.Hold{Reason: queue.ProfileDeleted})
		w.podUpdated(waiting("a").Nominated("n").Obj(), newer(waiting("a")))
		w.podUpdated(waiting("b").Nominated("n").Obj(), newer(waiting("b").Nominated("m")))
		w.podUpdated(waiting("c").Nominated("n").Obj(), newer(waiting("c").Nominated("n").Label("x", "y")))
		w.want("nominations", w.cache.Nominations(), 1)
		w.want("node of c", w.cache.NominatedNode("default/c"), "n")
	},
	"a nominated pod of somebody else's profile has no room promised": func(w *world) {
		w.podAdded(fixture.Pod("a").Scheduler("other").Nominated("n").Obj())
		w.want("nominations", w.cache.Nominations(), 0)
	},
	"a pod at Permit whose deletion begins is refused": func(w *world) {
		info, _ := framework.NewPodInfo(waiting("a").Obj())
		if err := w.cache.Assume(info, "n"); err != nil {
			w.t.Fatal(err)
		}
		w.waiting.Add(waiting("a").Obj(), map[string]time.Duration{"X": time.Hour})
		p := w.waiting.Get("default/a")
		w.podUpdated(waiting("a").Obj(), newer(waiting("a").Terminating()))
		w.want("verdict given", p.Reject("X", "late"), false)
		w.want("verdict", w.waiting.Await(w.t.Context(), "default/a").Message(), "the pod was deleted")
	},
	"a node that comes, changes or goes wakes who waits for that": func(w *world) {
		for _, change := range []func(){
			func() { w.nodeAdded(fixture.Node("n").Obj()) },
			func() { w.nodeUpdated(fixture.Node("n").Obj(), fixture.Node("n").Label("a", "b").Obj()) },
			func() { w.nodeDeleted(fixture.Node("n").Obj()) },
		} {
			w.sleeps("s", "Nodes", 0)
			change()
			w.want("awake", len(w.awake()), 1)
			w.podDeleted(waiting("s").Obj())
		}
		w.want("nodes", w.cache.Refresh().Len(), 0)
	},
	"a heartbeat wakes nobody": func(w *world) {
		w.sleeps("s", "Nodes", 0)
		w.nodeUpdated(fixture.Node("n").Obj(), fixture.Node("n").Mutate(func(n *v1.Node) { n.ResourceVersion = "9" }).Obj())
		w.want("awake", len(w.awake()), 0)
	},
}

// sleepsBeside is sleeps while another pod is active.
func (w *world) sleepsBeside(name, plugin string) {
	w.t.Helper()
	w.podAdded(waiting(name).Priority(99).Obj())
	w.queue.TryPop().Refused(w.t.Context(), sets.New(plugin), nil)
}

func TestHistories(t *testing.T) {
	for sentence, history := range histories {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			history(w)
			if err := w.queue.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
