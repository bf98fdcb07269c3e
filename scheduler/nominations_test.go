package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// A status is written asynchronously, and may not be written at all: the pod must not lose
// its nomination by that and preempt again.
func TestANominationIsKeptThoughTheStatusLacksIt(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.apply("one")
		defer env.startLeading()()
		env.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewBadRequest("no")})
		env.create(webPod("a"))
		env.want("nominated node in the status of a", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, "")
		env.a.Nominates = nil
		env.queue.Activate(env.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		env.want("nomination of a", env.cache.NominatedNode(webPod("a").UID), "n1")
		env.want("nominated node in the status of a at the end", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, "n1")
	}, node("n1"))
}

// No update of the pod's status need report the end: the status may never have had the
// nomination, or may not be written when it ends.
func TestTheEndOfANominationWakesOtherPods(t *testing.T) {
	refused := fakecluster.Fault{Verb: "patch", Err: apierrors.NewBadRequest("no")}
	for name, c := range map[string]struct {
		statusNode     string
		making, ending []fakecluster.Fault
		// reserve is what Reserve does with a on its nominated node; nil where no node fits it.
		reserve probe.StatusFunc
	}{
		"that only the cache has":                     {making: []fakecluster.Fault{refused}},
		"that the status still has":                   {statusNode: "n1", ending: []fakecluster.Fault{refused}},
		"by a failed Reserve":                         {making: []fakecluster.Fault{refused}, reserve: probe.Reject("taken")},
		"by a Reserve plugin that ends its goroutine": {making: []fakecluster.Fault{refused}, reserve: probe.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.SetStatus("Filter", probe.Reject("full"))
				env.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
				nominate := func(node string) {
					env.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
				}
				env.apply("one")
				defer env.startLeading()()
				env.create(webPod("b"))
				nominate("n1")
				env.cluster.Inject(c.making...)
				env.create(webPod("a"))
				env.want("nomination of a before", env.cache.NominatedNode(webPod("a").UID), "n1")
				env.want("nominated node in the status of a", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, c.statusNode)
				env.events.take()
				nominate("")
				if c.reserve != nil {
					env.a.SetStatus("Filter", nil)
					env.a.SetStatus("Reserve", c.reserve)
				}
				env.cluster.Inject(c.ending...)
				env.queue.Activate(env.ctx, map[string]*v1.Pod{"a": webPod("a")})
				synctest.Wait()
				env.want("nominated node in the status of a", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, c.statusNode)
				if tried := strings.Join(env.events.take(), "\n"); !strings.Contains(tried, "b Warning FailedScheduling") {
					t.Errorf("b was not requeued by the free resources; history: %s", tried)
				}
			}, node("n1"))
		})
	}
}

// nominated returns the nominated node in a pod's status.
func (env *testEnv) nominated(pod string) string {
	env.t.Helper()
	found := env.cluster.Pod(webPod(pod))
	if found == nil {
		env.t.Fatalf("%s does not exist", pod)
	}
	return found.Status.NominatedNodeName
}

func TestALesserPodLosesItsNomination(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.cluster.TerminateGracefully()
		env.create(podWithCPUs("bank/early", 2, 5).Obj())
		env.want("early is nominated for", env.nominated("bank/early"), "n1")
		env.create(podWithCPUs("bank/great", 4, 9).Obj())
		env.want("great is nominated for", env.nominated("bank/great"), "n1")
		env.want("early is nominated for", env.nominated("bank/early"), "")
		// Victims that early evicted are not evicted again.
		env.wantLines("calls", env.bindsAndDeletes(), "delete young", "delete old")
		if n := env.cache.Nominations(); n != 1 {
			t.Errorf("%d nominations, want that of great", n)
		}
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/old", 2, 1).StartTime(1).On("n1").Obj(), podWithCPUs("shop/young", 2, 1).StartTime(2).On("n1").Obj())
}

// A preemptor that takes the node wakes the pods that another nomination kept away, whether or not
// an update of a pod says so.
func TestALesserNominationThatEndsWakesOtherPods(t *testing.T) {
	refused := fakecluster.Fault{Verb: "patch", Err: apierrors.NewBadRequest("no")}
	for name, c := range map[string]struct {
		statusNode     string
		making, ending []fakecluster.Fault
	}{
		"that only the cache has": {making: []fakecluster.Fault{refused}},
		"that the status shows":   {statusNode: "n1"},
		"that the status keeps":   {statusNode: "n1", ending: []fakecluster.Fault{refused, refused}},
	} {
		t.Run(name, func(t *testing.T) {
			// Evictions write no condition, so that the first patch is that of early.
			evicted := func(victim *fixture.PodBuilder) *v1.Pod {
				return victim.On("n1").Mutate(func(pod *v1.Pod) {
					pod.Status.Conditions = []v1.PodCondition{{
						Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
						Message: "p: preempting to accommodate a higher priority pod",
					}}
				}).Obj()
			}
			runWithInTreePlugins(t, func(env *testEnv) {
				env.cluster.TerminateGracefully()
				env.cluster.Inject(c.making...)
				env.create(podWithCPUs("bank/early", 4, 5).Obj())
				env.want("nomination of early", env.cache.NominatedNode(webPod("bank/early").UID), "n1")
				env.want("nominated node in the status of early", env.nominated("bank/early"), c.statusNode)
				env.create(podWithCPUs("bank/next", 4, 5).Obj())
				env.events.take()
				env.cluster.Inject(c.ending...)
				env.create(podWithCPUs("bank/great", 0, 9).Requests("example.com/gpu", "1").Obj())
				env.want("nomination of early at the end", env.cache.NominatedNode(webPod("bank/early").UID), "")
				env.want("nomination of great", env.cache.NominatedNode(webPod("bank/great").UID), "n1")
				tried := strings.Join(env.events.take(), "\n")
				if !strings.Contains(tried, "next Warning FailedScheduling") {
					t.Errorf("next was not tried as the nomination ended; history: %s", tried)
				}
			}, fixture.Node("n1").Capacity("cpu", "4", "pods", "20", "example.com/gpu", "1").Obj(), evicted(podWithCPUs("shop/cpus", 4, 1)),
				evicted(podWithCPUs("shop/gpu", 0, 1).Requests("example.com/gpu", "1")))
		})
	}
}

func TestTheNominationOfAPodThatIsDeletedEnds(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.cluster.TerminateGracefully()
		env.create(podWithCPUs("bank/big", 4, 9).Obj(), podWithCPUs("bank/next", 4, 9).Obj())
		env.want("next is nominated for", env.nominated("bank/next"), "")
		env.cluster.DeletePod(webPod("bank/big"))
		synctest.Wait()
		env.want("next, after the nomination ended, is nominated for", env.nominated("bank/next"), "n1")
		env.cluster.DeletePod(webPod("shop/a"))
		synctest.Wait()
		env.wantLines("calls", env.bindsAndDeletes(), "delete a", "bind next n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
}

// Two pods wait for one victim. The first was to evict it; the second, with a higher
// priority, took the nomination from the first.
func TestAPreemptorEvictsASharedVictimThatAnotherCouldNot(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		goOn := make(chan struct{})
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("the role is not bound"))
		env.cluster.Inject(fakecluster.Fault{Verb: "delete", Err: refusal, Before: func() { <-goOn }})
		env.create(podWithCPUs("bank/first", 4, 5).Obj())
		env.create(podWithCPUs("bank/second", 4, 9).Obj())
		env.want("second is nominated for", env.nominated("bank/second"), "n1")
		close(goOn)
		synctest.Wait()
		env.wantLines("calls", env.bindsAndDeletes(), "delete a", "delete a", "bind second n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
}

// blockingPlugin lets labelled pods wait on Permit, or block in PreBind, until they are
// rejected or canceled.
type blockingPlugin struct{}

func (*blockingPlugin) Name() string { return "Keeper" }

func (*blockingPlugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Labels["kept"] != "permit" {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Hour
}

func (*blockingPlugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels["kept"] != "prebind" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (*blockingPlugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	<-ctx.Done()
	return fwk.AsStatus(context.Cause(ctx))
}

func TestAVictimInItsBindingCycleGoesBackToTheQueue(t *testing.T) {
	registry, err := plugins.With(plugins.InTree(), plugins.Register("Keeper",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &blockingPlugin{}, nil }, (*blockingPlugin)(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"permit", "prebind"} {
		t.Run(where, func(t *testing.T) {
			runTestWith(t, registry, func(env *testEnv) {
				profile := &v1alpha1.SchedulingProfile{}
				profile.Name, profile.Spec.Plugins = "p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Keeper"}}}}
				blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: registry})
				if rejection != nil {
					t.Fatal(rejection.Message())
				}
				if err := env.Profiles().Apply(env.ctx, blueprint); err != nil {
					t.Fatal(err)
				}
				defer env.startLeading()()
				env.create(podWithCPUs("shop/kept", 4, 1).Label("kept", where).Obj())
				env.want("nominated node in its status", env.nominated("shop/kept"), "n1")
				env.create(podWithCPUs("bank/big", 4, 9).Obj())
				env.wantLines("calls", env.bindsAndDeletes(), "bind big n1")
				env.wantLines("events", env.preemptedEvents(),
					"kept Normal Preempted: Preempted by pod bank/big on node n1 (in the scheduler's memory).")
				env.want("nominated node in the victim's status", env.nominated("shop/kept"), "")
				time.Sleep(10 * time.Second) // the backoff of an error
				synctest.Wait()
				env.want("queue", env.counts(), "1 unschedulable")
			}, nodeWithCPUs("n1", 4))
		})
	}
}

func TestPluginsNominatePendingPodsOnly(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		bound, gone, pending := webPod("bound"), webPod("gone"), fixture.Pod("pending").SchedulerName("other").Obj()
		env.create(bound, pending)
		time.Sleep(time.Second)
		if env.nodeOf("bound") == "" {
			t.Fatal("the pod is not bound")
		}
		for _, pod := range []*v1.Pod{bound, gone, pending} {
			info, err := framework.NewPodInfo(pod)
			env.must(err)
			o.handle.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n2"})
			nominated := pod.DeepCopy()
			nominated.Status.NominatedNodeName = "n2"
			info, err = framework.NewPodInfo(nominated)
			env.must(err)
			o.handle.UpdateNominatedPod(klog.Background(), pod, info)
		}
		var names []string
		for _, info := range o.handle.NominatedPodsForNode("n2") {
			names = append(names, info.GetPod().Name)
		}
		env.wantLines("pods that are nominated", names, "pending")
	})
}
