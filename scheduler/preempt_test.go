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
func runWithInTreePlugins(t *testing.T, test func(w *testEnv), objects ...runtime.Object) {
	runTestWith(t, plugins.InTree(), func(w *testEnv) {
		w.profile("p", nil)
		defer w.startLeading()()
		test(w)
	}, objects...)
}

// profile lets a profile run.
func (w *testEnv) profile(name string, chosen *v1alpha1.Plugins) {
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
func nodeWithCPUs(name string, cpus int) *v1.Node {
	return fixture.Node(name).Capacity("cpu", fmt.Sprint(cpus), "pods", "20").Obj()
}

func podWithCPUs(key string, cpus int, priority int32) *fixture.PodBuilder {
	return fixture.Pod(key).Requests("cpu", fmt.Sprint(cpus)).Priority(priority).SchedulerName("p")
}

// acts are the deletions and bindings since the last time.
func (w *testEnv) bindsAndDeletes() []string {
	return slices.DeleteFunc(w.cluster.TakeCalls(), func(call string) bool {
		return !strings.HasPrefix(call, "delete") && !strings.HasPrefix(call, "bind")
	})
}

// news are the events that tell of preemptions, since the last time.
func (w *testEnv) preemptedEvents() []string {
	return slices.DeleteFunc(w.events.take(), func(line string) bool { return !strings.Contains(line, " Preempted: ") })
}

func (w *testEnv) victims() int64 {
	page, _ := w.options.Ledger.History("p", 0)
	return page.Totals.Victims
}

func TestAPodGetsTheResourcesOfItsVictims(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(podWithCPUs("bank/big", 3, 9).Obj())
		w.wantLines("calls, each victim told why first", slices.DeleteFunc(w.cluster.TakeCalls(), func(call string) bool { return call == "patch big" }),
			"patch b", "delete b", "patch a", "delete a", "bind big n1")
		w.wantLines("events, which name the preemptor by its UID", w.preemptedEvents(),
			"b Normal Preempted: Preempted by pod bank/big on node n1", "a Normal Preempted: Preempted by pod bank/big on node n1")
		if n := w.victims(); n != 2 {
			t.Errorf("the profile counts %d victims, want 2", n)
		}
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 1, 2).On("n1").Obj(), podWithCPUs("shop/c", 1, 9).On("n1").Obj())
}

// Its attempts have a context of their own, which ends before the victims are
// told.
func TestAPodOfAProfileWithOutOfTreePluginsGetsTheResourcesOfItsVictims(t *testing.T) {
	registry := plugins.InTree()
	foreign := registry["NodeName"]
	foreign.InTree = false
	registry["NodeName"] = foreign
	runTestWith(t, registry, func(w *testEnv) {
		w.profile("p", nil)
		defer w.startLeading()()
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(time.Second) }, Times: 3})
		w.create(podWithCPUs("bank/big", 4, 9).Obj())
		time.Sleep(5 * time.Second)
		w.wantLines("calls", w.bindsAndDeletes(), "delete a", "delete b", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAPodWaitsForVictimsThatTerminateSlowly(t *testing.T) {
	first, second := podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj()
	runWithInTreePlugins(t, func(w *testEnv) {
		w.cluster.TerminateGracefully()
		w.create(podWithCPUs("bank/big", 4, 9).Obj())
		w.wantLines("calls", w.bindsAndDeletes(), "delete a", "delete b")
		w.want("condition", w.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: found a potential placement for pod on node n1, preempting 2 victims")
		w.want("nominated", w.cluster.Pod(webPod("bank/big")).Status.NominatedNodeName, "n1")
		for _, victim := range []*v1.Pod{first, second} {
			got := w.cluster.Pod(victim).Status.Conditions[0]
			if got.Type != v1.DisruptionTarget || got.Status != v1.ConditionTrue || got.Reason != "PreemptionByScheduler" ||
				got.Message != "p: preempting to accommodate a higher priority pod" {
				t.Errorf("%s was told %+v", victim.Name, got)
			}
		}
		// Woken meanwhile it asks nobody else, and takes nobody's room.
		w.cluster.DeletePod(first)
		synctest.Wait()
		w.want("condition", w.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: not eligible due to a terminating pod on the nominated node.")
		w.create(podWithCPUs("shop/small", 2, 5).Obj())
		w.want("a lesser pod's node", w.nodeOf("shop/small"), "")
		w.cluster.DeletePod(second)
		synctest.Wait()
		w.wantLines("calls", w.bindsAndDeletes(), "bind big n1")
	}, nodeWithCPUs("n1", 4), first, second)
}

func TestAPodIsGatedWhileItsVictimsAreBeingEvicted(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		goOn := make(chan struct{})
		w.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		w.create(podWithCPUs("bank/big", 4, 9).Obj())
		w.want("queue, after the first victim's leaving has woken the pod", w.counts(), "1 gated")
		w.profile("p", &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "ImageLocality"}}}})
		w.want("queue, after a swap, which forgets nothing", w.counts(), "1 gated")
		close(goOn)
		synctest.Wait()
		w.wantLines("calls", w.bindsAndDeletes(), "delete a", "delete b", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 2).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAPodThatMayNotPreemptWaits(t *testing.T) {
	for sentence, c := range map[string]struct {
		plugins *v1alpha1.Plugins
		pod     *v1.Pod
		says    string
	}{
		"a profile without the plugin preempts nobody": {
			&v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "DefaultPreemption"}}}},
			podWithCPUs("bank/big", 4, 9).Obj(), "",
		},
		"nor does a pod whose policy is Never": {
			nil, podWithCPUs("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }).Obj(),
			" preemption: not eligible due to preemptionPolicy=Never.",
		},
		"nor one that is no more important": {
			nil, podWithCPUs("bank/big", 4, 1).Obj(), " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				w.profile("p", c.plugins)
				w.create(c.pod)
				w.want("condition", w.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."+c.says)
				w.want("queue", w.counts(), "1 unschedulable")
				w.wantLines("calls", w.bindsAndDeletes())
			}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
		})
	}
}

func TestEvictionErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for sentence, c := range map[string]struct {
		fault  fakecluster.Fault
		before func(w *testEnv)
		after  time.Duration // until the pod has its room
		acts   []string
	}{
		"of an API server that fails is asked again": {
			fakecluster.Fault{Err: apierrors.NewInternalError(errors.New("no")), Times: 3}, nil, 3 * time.Second,
			[]string{"delete a", "delete a", "delete a", "delete a", "bind big n1"},
		},
		"of one that refuses is asked again later, not without end": {
			fakecluster.Fault{Err: apierrors.NewForbidden(pods, "a", errors.New("the role is not bound"))}, nil, preemptionRetryAfter,
			[]string{"delete a", "delete a", "bind big n1"},
		},
		"whose answer was lost has taken place": {
			fakecluster.Fault{Err: errors.New("lost"), Committed: true}, nil, time.Second,
			[]string{"delete a", "bind big n1"},
		},
		"of a pod that has gone is over": {
			fakecluster.Fault{}, func(w *testEnv) { w.cluster.DeletePod(webPod("shop/a")) }, 0,
			[]string{"delete a", "bind big n1"},
		},
		"of a pod that has a successor of the same name is over": {
			fakecluster.Fault{}, func(w *testEnv) {
				w.cluster.DeletePod(webPod("shop/a"))
				w.cluster.Apply(podWithCPUs("shop/a", 4, 1).UID("another").Obj())
			}, 0,
			[]string{"delete a", "bind big n1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				c.fault.Verb = "delete"
				if c.before != nil {
					c.fault.Before = func() { c.before(w) }
				}
				w.cluster.Inject(c.fault)
				w.create(podWithCPUs("bank/big", 4, 9).Obj())
				if c.after > 0 {
					time.Sleep(c.after - time.Millisecond)
					synctest.Wait()
					w.want("node before that", w.nodeOf("bank/big"), map[bool]string{true: "n1"}[c.fault.Committed])
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				w.wantLines("calls", w.bindsAndDeletes(), c.acts...)
				if a := w.cluster.Pod(webPod("shop/a")); (a != nil) != strings.Contains(sentence, "successor") {
					t.Errorf("in the end the API server has %v", a)
				}
			}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
		})
	}
}
