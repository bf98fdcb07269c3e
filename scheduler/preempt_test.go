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
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// runWithInTreePlugins runs a test in virtual time with the in-tree plugins; the leader runs
// profile p with the default ones.
func runWithInTreePlugins(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	runTestWith(t, plugins.InTree(), func(env *testEnv) {
		env.profile("p", nil)
		defer env.startLeading()()
		test(env)
	}, objects...)
}

// profile applies a profile.
func (env *testEnv) profile(name string, chosen *v1alpha1.Plugins) {
	env.t.Helper()
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: &v1alpha1.SchedulingProfile{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.SchedulingProfileSpec{Plugins: chosen},
		},
		Registry: env.options.Registry, Version: "test",
	})
	if rejection != nil {
		env.t.Fatal(rejection.Message())
	}
	if err := env.Profiles().Apply(env.ctx, blueprint); err != nil {
		env.t.Fatal(err)
	}
	synctest.Wait()
}

// nodeWithCPUs returns a node with that many CPUs and room for 20 pods.
func nodeWithCPUs(name string, cpus int) *v1.Node {
	return fixture.Node(name).Capacity("cpu", fmt.Sprint(cpus), "pods", "20").Obj()
}

func podWithCPUs(key string, cpus int, priority int32) *fixture.PodBuilder {
	return fixture.Pod(key).Requests("cpu", fmt.Sprint(cpus)).Priority(priority).SchedulerName("p")
}

// bindsAndDeletes returns the deletions and bindings since the last call.
func (env *testEnv) bindsAndDeletes() []string {
	return slices.DeleteFunc(env.cluster.TakeCalls(), func(call string) bool {
		return !strings.HasPrefix(call, "delete") && !strings.HasPrefix(call, "bind")
	})
}

// preemptedEvents returns the Preempted Events since the last call.
func (env *testEnv) preemptedEvents() []string {
	return slices.DeleteFunc(env.events.take(), func(line string) bool { return !strings.Contains(line, " Preempted: ") })
}

func (env *testEnv) victims() int64 {
	history, _ := env.options.Ledger.History("p", 0)
	return history.Totals.Victims
}

func TestAPodGetsTheResourcesOfItsVictims(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(podWithCPUs("bank/big", 3, 9).Obj())
		env.wantLines("calls, with the status of each victim first", slices.DeleteFunc(env.cluster.TakeCalls(), func(call string) bool { return call == "patch big" }),
			"patch b", "delete b", "patch a", "delete a", "bind big n1")
		env.wantLines("events, which name the preemptor by its UID", env.preemptedEvents(),
			"b Normal Preempted: Preempted by pod bank/big on node n1", "a Normal Preempted: Preempted by pod bank/big on node n1")
		if n := env.victims(); n != 2 {
			t.Errorf("the profile counts %d victims, want 2", n)
		}
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 1, 2).On("n1").Obj(), podWithCPUs("shop/c", 1, 9).On("n1").Obj())
}

// Attempts of such a profile have a context of their own, which ends before the evictions.
func TestAPodOfAProfileWithOutOfTreePluginsGetsTheResourcesOfItsVictims(t *testing.T) {
	registry := plugins.InTree()
	foreign := registry["NodeName"]
	foreign.InTree = false
	registry["NodeName"] = foreign
	runTestWith(t, registry, func(env *testEnv) {
		env.profile("p", nil)
		defer env.startLeading()()
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(time.Second) }, Times: 3})
		env.create(podWithCPUs("bank/big", 4, 9).Obj())
		time.Sleep(5 * time.Second)
		env.wantLines("calls", env.bindsAndDeletes(), "delete a", "delete b", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAPodWaitsForVictimsThatTerminateSlowly(t *testing.T) {
	first, second := podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj()
	runWithInTreePlugins(t, func(env *testEnv) {
		env.cluster.TerminateGracefully()
		env.create(podWithCPUs("bank/big", 4, 9).Obj())
		env.wantLines("calls", env.bindsAndDeletes(), "delete a", "delete b")
		env.want("condition", env.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: found a potential placement for pod on node n1, preempting 2 victims")
		env.want("nominated", env.cluster.Pod(webPod("bank/big")).Status.NominatedNodeName, "n1")
		for _, victim := range []*v1.Pod{first, second} {
			got := env.cluster.Pod(victim).Status.Conditions[0]
			if got.Type != v1.DisruptionTarget || got.Status != v1.ConditionTrue || got.Reason != "PreemptionByScheduler" ||
				got.Message != "p: preempting to accommodate a higher priority pod" {
				t.Errorf("%s has status %+v", victim.Name, got)
			}
		}
		// If it is requeued meanwhile it evicts no other pod.
		env.cluster.DeletePod(first)
		synctest.Wait()
		env.want("condition", env.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: not eligible due to a terminating pod on the nominated node.")
		env.create(podWithCPUs("shop/small", 2, 5).Obj())
		env.want("node of a pod of lower priority", env.nodeOf("shop/small"), "")
		env.cluster.DeletePod(second)
		synctest.Wait()
		env.wantLines("calls", env.bindsAndDeletes(), "bind big n1")
	}, nodeWithCPUs("n1", 4), first, second)
}

func TestAPodIsGatedWhileItsVictimsAreBeingEvicted(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		goOn := make(chan struct{})
		env.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		env.create(podWithCPUs("bank/big", 4, 9).Obj())
		env.want("queue, after the first victim's deletion requeued the pod", env.counts(), "1 gated")
		env.profile("p", &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "ImageLocality"}}}})
		env.want("queue, after a swap", env.counts(), "1 gated")
		close(goOn)
		synctest.Wait()
		env.wantLines("calls", env.bindsAndDeletes(), "delete a", "delete b", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 2).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAPodThatMayNotPreemptWaits(t *testing.T) {
	for name, c := range map[string]struct {
		plugins *v1alpha1.Plugins
		pod     *v1.Pod
		says    string
	}{
		"a profile without the plugin does not preempt": {
			&v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "DefaultPreemption"}}}},
			podWithCPUs("bank/big", 4, 9).Obj(), "",
		},
		"a pod with the policy Never does not preempt": {
			nil, podWithCPUs("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }).Obj(),
			" preemption: not eligible due to preemptionPolicy=Never.",
		},
		"a pod of equal priority does not preempt": {
			nil, podWithCPUs("bank/big", 4, 1).Obj(), " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				env.profile("p", c.plugins)
				env.create(c.pod)
				env.want("condition", env.podScheduled("bank/big"), "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."+c.says)
				env.want("queue", env.counts(), "1 unschedulable")
				env.wantLines("calls", env.bindsAndDeletes())
			}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
		})
	}
}

func TestEvictionErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		fault  fakecluster.Fault
		before func(env *testEnv)
		after  time.Duration // until the pod is scheduled
		acts   []string
	}{
		"an internal error is retried": {
			fakecluster.Fault{Err: apierrors.NewInternalError(errors.New("no")), Times: 3}, nil, 3 * time.Second,
			[]string{"delete a", "delete a", "delete a", "delete a", "bind big n1"},
		},
		"a rejected request is retried later, not without pause": {
			fakecluster.Fault{Err: apierrors.NewForbidden(pods, "a", errors.New("the role is not bound"))}, nil, preemptionRetryAfter,
			[]string{"delete a", "delete a", "bind big n1"},
		},
		"a request whose response was lost counts": {
			fakecluster.Fault{Err: errors.New("lost"), Committed: true}, nil, time.Second,
			[]string{"delete a", "bind big n1"},
		},
		"a deleted victim counts as evicted": {
			fakecluster.Fault{}, func(env *testEnv) { env.cluster.DeletePod(webPod("shop/a")) }, 0,
			[]string{"delete a", "bind big n1"},
		},
		"a victim that was replaced by a pod of the same name counts as evicted": {
			fakecluster.Fault{}, func(env *testEnv) {
				env.cluster.DeletePod(webPod("shop/a"))
				env.cluster.Apply(podWithCPUs("shop/a", 4, 1).UID("another").Obj())
			}, 0,
			[]string{"delete a", "bind big n1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				c.fault.Verb = "delete"
				if c.before != nil {
					c.fault.Before = func() { c.before(env) }
				}
				env.cluster.Inject(c.fault)
				env.create(podWithCPUs("bank/big", 4, 9).Obj())
				if c.after > 0 {
					time.Sleep(c.after - time.Millisecond)
					synctest.Wait()
					env.want("node before that", env.nodeOf("bank/big"), map[bool]string{true: "n1"}[c.fault.Committed])
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				env.wantLines("calls", env.bindsAndDeletes(), c.acts...)
				if a := env.cluster.Pod(webPod("shop/a")); (a != nil) != strings.Contains(name, "replaced by") {
					t.Errorf("at the end the API server has %v", a)
				}
			}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
		})
	}
}
