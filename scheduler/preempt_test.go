package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// inTown runs a test in virtual time with the plugins of the tree, of which
// profile p runs the default ones and leads.
func inTown(t *testing.T, test func(w *world), objects ...runtime.Object) {
	inTimeWith(t, plugins.InTree(), func(w *world) {
		w.profile("p", nil)
		defer w.lead()()
		test(w)
	}, objects...)
}

// profile lets a profile run.
func (w *world) profile(name string, chosen *v1alpha1.Plugins) {
	w.t.Helper()
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: &v1alpha1.SchedulingProfile{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.SchedulingProfileSpec{Plugins: chosen},
		},
		Registry: plugins.InTree(), Version: "test",
	})
	if rejection != nil {
		w.t.Fatal(rejection.Message())
	}
	if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// berth offers cpus for up to 20 pods.
func berth(name string, cpus int) *v1.Node {
	return fixture.Node(name).Offers("cpu", fmt.Sprint(cpus), "pods", "20").Obj()
}

func guest(key string, cpus int, priority int32) *fixture.PodBuilder {
	return fixture.Pod(key).Requests("cpu", fmt.Sprint(cpus)).Priority(priority).Scheduler("p")
}

// acts are the deletions and bindings since the last time.
func (w *world) acts() []string {
	return slices.DeleteFunc(w.cluster.Take(), func(call string) bool {
		return !strings.HasPrefix(call, "delete") && !strings.HasPrefix(call, "bind")
	})
}

// news are the events that tell of preemptions, since the last time.
func (w *world) news() []string {
	return slices.DeleteFunc(w.events.take(), func(line string) bool { return !strings.Contains(line, " Preempted: ") })
}

func (w *world) victims() int64 {
	page, _ := w.options.Ledger.Page("p", 0)
	return page.Totals.Victims
}

func TestAPodGetsTheRoomOfItsVictims(t *testing.T) {
	inTown(t, func(w *world) {
		w.create(guest("bank/big", 3, 9).Obj())
		w.wantLines("calls, each victim told why first", slices.DeleteFunc(w.cluster.Take(), func(call string) bool { return call == "patch big" }),
			"patch b", "delete b", "patch a", "delete a", "bind big n1")
		w.wantLines("events, which name the preemptor by its UID", w.news(),
			"b Normal Preempted: Preempted by pod bank/big on node n1", "a Normal Preempted: Preempted by pod bank/big on node n1")
		if n := w.victims(); n != 2 {
			t.Errorf("the profile counts %d victims, want 2", n)
		}
	}, berth("n1", 4), guest("shop/a", 2, 1).On("n1").Obj(), guest("shop/b", 1, 2).On("n1").Obj(), guest("shop/c", 1, 9).On("n1").Obj())
}

// Its attempts have a context of their own, which ends before the victims are
// told.
func TestAProfileWithForeignPluginsGetsTheRoomOfItsVictims(t *testing.T) {
	registry := plugins.InTree()
	foreign := registry["NodeName"]
	foreign.BuiltIn = false
	registry["NodeName"] = foreign
	inTimeWith(t, registry, func(w *world) {
		w.profile("p", nil)
		defer w.lead()()
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(time.Second) }, Times: 3})
		w.create(guest("bank/big", 4, 9).Obj())
		time.Sleep(5 * time.Second)
		w.wantLines("calls", w.acts(), "delete a", "delete b", "bind big n1")
	}, berth("n1", 4), guest("shop/a", 2, 1).On("n1").Obj(), guest("shop/b", 2, 1).On("n1").Obj())
}

func TestAPodWaitsForVictimsThatTakeTheirTime(t *testing.T) {
	first, second := guest("shop/a", 2, 1).On("n1").Obj(), guest("shop/b", 2, 1).On("n1").Obj()
	inTown(t, func(w *world) {
		w.cluster.SlowDown()
		w.create(guest("bank/big", 4, 9).Obj())
		w.wantLines("calls", w.acts(), "delete a", "delete b")
		w.want("condition", w.scheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: found a potential placement for pod on node n1, preempting 2 victims")
		w.want("nominated", w.cluster.Pod(web("bank/big")).Status.NominatedNodeName, "n1")
		for _, victim := range []*v1.Pod{first, second} {
			got := w.cluster.Pod(victim).Status.Conditions[0]
			if got.Type != v1.DisruptionTarget || got.Status != v1.ConditionTrue || got.Reason != "PreemptionByScheduler" ||
				got.Message != "p: preempting to accommodate a higher priority pod" {
				t.Errorf("%s was told %+v", victim.Name, got)
			}
		}
		// Woken meanwhile it asks nobody else, and takes nobody's room.
		w.cluster.Remove(first)
		synctest.Wait()
		w.want("condition", w.scheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: not eligible due to a terminating pod on the nominated node.")
		w.create(guest("shop/small", 2, 5).Obj())
		w.want("a lesser pod's node", w.on("shop/small"), "")
		w.cluster.Remove(second)
		synctest.Wait()
		w.wantLines("calls", w.acts(), "bind big n1")
	}, berth("n1", 4), first, second)
}

func TestAPodIsGatedWhileItsVictimsAreBeingTold(t *testing.T) {
	inTown(t, func(w *world) {
		goOn := make(chan struct{})
		w.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		w.create(guest("bank/big", 4, 9).Obj())
		w.want("queue, after the first victim's leaving has woken the pod", w.counts(), "1 gated")
		w.profile("p", &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "ImageLocality"}}}})
		w.want("queue, after a swap, which forgets nothing", w.counts(), "1 gated")
		close(goOn)
		synctest.Wait()
		w.wantLines("calls", w.acts(), "delete a", "delete b", "bind big n1")
	}, berth("n1", 4), guest("shop/a", 2, 2).On("n1").Obj(), guest("shop/b", 2, 1).On("n1").Obj())
}

func TestWhoMayNotPreemptWaits(t *testing.T) {
	for sentence, c := range map[string]struct {
		plugins *v1alpha1.Plugins
		pod     *v1.Pod
		says    string
	}{
		"a profile without the plugin preempts nobody": {
			&v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "DefaultPreemption"}}}},
			guest("bank/big", 4, 9).Obj(), "",
		},
		"nor does a pod whose policy is Never": {
			nil, guest("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }).Obj(),
			" preemption: not eligible due to preemptionPolicy=Never.",
		},
		"nor one that is no more important": {
			nil, guest("bank/big", 4, 1).Obj(), " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTown(t, func(w *world) {
				w.profile("p", c.plugins)
				w.create(c.pod)
				w.want("condition", w.scheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."+c.says)
				w.want("queue", w.counts(), "1 unschedulable")
				w.wantLines("calls", w.acts())
			}, berth("n1", 4), guest("shop/a", 4, 1).On("n1").Obj())
		})
	}
}

func TestAnEvictionThatStumbles(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for sentence, c := range map[string]struct {
		fault  fakecluster.Fault
		before func(w *world)
		after  time.Duration // until the pod has its room
		acts   []string
	}{
		"of an API server that fails is asked again": {
			fakecluster.Fault{Err: apierrors.NewInternalError(errors.New("no")), Times: 3}, nil, 3 * time.Second,
			[]string{"delete a", "delete a", "delete a", "delete a", "bind big n1"},
		},
		"of one that refuses is asked again later, not without end": {
			fakecluster.Fault{Err: apierrors.NewForbidden(pods, "a", errors.New("the role is not bound"))}, nil, evictAgain,
			[]string{"delete a", "delete a", "bind big n1"},
		},
		"whose answer was lost has taken place": {
			fakecluster.Fault{Err: errors.New("lost"), Committed: true}, nil, time.Second,
			[]string{"delete a", "bind big n1"},
		},
		"of a pod that has gone is over": {
			fakecluster.Fault{}, func(w *world) { w.cluster.Remove(web("shop/a")) }, 0,
			[]string{"delete a", "bind big n1"},
		},
		"of a pod that has a successor of the same name is over": {
			fakecluster.Fault{}, func(w *world) {
				w.cluster.Remove(web("shop/a"))
				w.cluster.Apply(guest("shop/a", 4, 1).UID("another").Obj())
			}, 0,
			[]string{"delete a", "bind big n1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTown(t, func(w *world) {
				c.fault.Verb = "delete"
				if c.before != nil {
					c.fault.Before = func() { c.before(w) }
				}
				w.cluster.Inject(c.fault)
				w.create(guest("bank/big", 4, 9).Obj())
				if c.after > 0 {
					time.Sleep(c.after - time.Millisecond)
					synctest.Wait()
					w.want("node before that", w.on("bank/big"), map[bool]string{true: "n1"}[c.fault.Committed])
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				w.wantLines("calls", w.acts(), c.acts...)
				if a := w.cluster.Pod(web("shop/a")); (a != nil) != strings.Contains(sentence, "successor") {
					t.Errorf("in the end the API server has %v", a)
				}
			}, berth("n1", 4), guest("shop/a", 4, 1).On("n1").Obj())
		})
	}
}
