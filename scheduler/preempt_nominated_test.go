package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fakecluster"
)

// nominated is the node that a pod's status names.
func (w *testEnv) nominated(pod string) string {
	w.t.Helper()
	found := w.cluster.Pod(webPod(pod))
	if found == nil {
		w.t.Fatalf("%s is gone", pod)
	}
	return found.Status.NominatedNodeName
}

func TestALesserPodLosesItsNomination(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.cluster.TerminateGracefully()
		w.create(podWithCPUs("bank/early", 2, 5).Obj())
		w.want("early is nominated for", w.nominated("bank/early"), "n1")
		w.create(podWithCPUs("bank/great", 4, 9).Obj())
		w.want("great is nominated for", w.nominated("bank/great"), "n1")
		w.want("early is nominated for", w.nominated("bank/early"), "")
		// Whom early has told is not told again.
		w.wantLines("calls", w.bindsAndDeletes(), "delete young", "delete old")
		if n := w.cache.Nominations(); n != 1 {
			t.Errorf("%d nominations, want that of great", n)
		}
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/old", 2, 1).StartTime(1).On("n1").Obj(), podWithCPUs("shop/young", 2, 1).StartTime(2).On("n1").Obj())
}

func TestTheNominationOfAPodThatIsDeletedEnds(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.cluster.TerminateGracefully()
		w.create(podWithCPUs("bank/big", 4, 9).Obj(), podWithCPUs("bank/next", 4, 9).Obj())
		w.want("next is nominated for", w.nominated("bank/next"), "")
		w.cluster.DeletePod(webPod("bank/big"))
		synctest.Wait()
		w.want("next, since the room is anybody's, is nominated for", w.nominated("bank/next"), "n1")
		w.cluster.DeletePod(webPod("shop/a"))
		synctest.Wait()
		w.wantLines("calls", w.bindsAndDeletes(), "delete a", "bind next n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
}

// Two pods wait for one victim, of whom the first was to tell it: the second,
// which is more important, has taken its room.
func TestAPreemptorEvictsASharedVictimThatAnotherCouldNot(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		goOn := make(chan struct{})
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("the role is not bound"))
		w.cluster.Inject(fakecluster.Fault{Verb: "delete", Err: refusal, Before: func() { <-goOn }})
		w.create(podWithCPUs("bank/first", 4, 5).Obj())
		w.create(podWithCPUs("bank/second", 4, 9).Obj())
		w.want("second is nominated for", w.nominated("bank/second"), "n1")
		close(goOn)
		synctest.Wait()
		w.wantLines("calls", w.bindsAndDeletes(), "delete a", "delete a", "bind second n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 4, 1).On("n1").Obj())
}

// keeper lets pods with a label wait at Permit, or work in PreBind, until
// somebody stops them.
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
			runTestWith(t, registry, func(w *testEnv) {
				profile := &v1alpha1.SchedulingProfile{}
				profile.Name, profile.Spec.Plugins = "p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Keeper"}}}}
				blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: registry})
				if rejection != nil {
					t.Fatal(rejection.Message())
				}
				if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
					t.Fatal(err)
				}
				defer w.startLeading()()
				w.create(podWithCPUs("shop/kept", 4, 1).Label("kept", where).Obj())
				w.want("where autoscalers are told that it goes", w.nominated("shop/kept"), "n1")
				w.create(podWithCPUs("bank/big", 4, 9).Obj())
				w.wantLines("calls", w.bindsAndDeletes(), "bind big n1")
				w.wantLines("events", w.preemptedEvents(),
					"kept Normal Preempted: Preempted by pod bank/big on node n1 (in the scheduler's memory).")
				w.want("where autoscalers are told that the victim goes", w.nominated("shop/kept"), "")
				time.Sleep(10 * time.Second) // the backoff of an error
				synctest.Wait()
				w.want("queue", w.counts(), "1 unschedulable")
			}, nodeWithCPUs("n1", 4))
		})
	}
}
