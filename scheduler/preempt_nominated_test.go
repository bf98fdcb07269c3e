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
func (w *world) nominated(pod string) string {
	w.t.Helper()
	found := w.cluster.Pod(web(pod))
	if found == nil {
		w.t.Fatalf("%s is gone", pod)
	}
	return found.Status.NominatedNodeName
}

func TestALesserPodLosesItsNomination(t *testing.T) {
	inTown(t, func(w *world) {
		w.cluster.SlowDown()
		w.create(guest("bank/early", 2, 5).Obj())
		w.want("early is nominated for", w.nominated("bank/early"), "n1")
		w.create(guest("bank/great", 4, 9).Obj())
		w.want("great is nominated for", w.nominated("bank/great"), "n1")
		w.want("early is nominated for", w.nominated("bank/early"), "")
		// Whom early has told is not told again.
		w.wantLines("calls", w.acts(), "delete young", "delete old")
		if n := w.cache.Nominations(); n != 1 {
			t.Errorf("%d nominations, want that of great", n)
		}
	}, berth("n1", 4), guest("shop/old", 2, 1).Started(1).On("n1").Obj(), guest("shop/young", 2, 1).Started(2).On("n1").Obj())
}

func TestTheNominationOfAPodThatIsDeletedEnds(t *testing.T) {
	inTown(t, func(w *world) {
		w.cluster.SlowDown()
		w.create(guest("bank/big", 4, 9).Obj(), guest("bank/next", 4, 9).Obj())
		w.want("next is nominated for", w.nominated("bank/next"), "")
		w.cluster.Remove(web("bank/big"))
		synctest.Wait()
		w.want("next, since the room is anybody's, is nominated for", w.nominated("bank/next"), "n1")
		w.cluster.Remove(web("shop/a"))
		synctest.Wait()
		w.wantLines("calls", w.acts(), "delete a", "bind next n1")
	}, berth("n1", 4), guest("shop/a", 4, 1).On("n1").Obj())
}

// Two pods wait for one victim, of whom the first was to tell it: the second,
// which is more important, has taken its room.
func TestWhoSharesAVictimTellsItWhenAnotherCouldNot(t *testing.T) {
	inTown(t, func(w *world) {
		goOn := make(chan struct{})
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("the role is not bound"))
		w.cluster.Inject(fakecluster.Fault{Verb: "delete", Err: refusal, Before: func() { <-goOn }})
		w.create(guest("bank/first", 4, 5).Obj())
		w.create(guest("bank/second", 4, 9).Obj())
		w.want("second is nominated for", w.nominated("bank/second"), "n1")
		close(goOn)
		synctest.Wait()
		w.wantLines("calls", w.acts(), "delete a", "delete a", "bind second n1")
	}, berth("n1", 4), guest("shop/a", 4, 1).On("n1").Obj())
}

// keeper lets pods with a label wait at Permit, or work in PreBind, until
// somebody stops them.
type keeper struct{}

func (*keeper) Name() string { return "Keeper" }

func (*keeper) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Labels["kept"] != "permit" {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Hour
}

func (*keeper) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels["kept"] != "prebind" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (*keeper) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	<-ctx.Done()
	return fwk.AsStatus(context.Cause(ctx))
}

func TestAVictimOnItsWayGoesBackToTheQueue(t *testing.T) {
	registry, err := plugins.With(plugins.InTree(), plugins.Register("Keeper",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &keeper{}, nil }, (*keeper)(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"permit", "prebind"} {
		t.Run(where, func(t *testing.T) {
			inTimeWith(t, registry, func(w *world) {
				profile := &v1alpha1.SchedulingProfile{}
				profile.Name, profile.Spec.Plugins = "p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Keeper"}}}}
				blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: registry})
				if rejection != nil {
					t.Fatal(rejection.Message())
				}
				if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
					t.Fatal(err)
				}
				defer w.lead()()
				w.create(guest("shop/kept", 4, 1).Label("kept", where).Obj())
				w.want("where autoscalers are told that it goes", w.nominated("shop/kept"), "n1")
				w.create(guest("bank/big", 4, 9).Obj())
				w.wantLines("calls", w.acts(), "bind big n1")
				w.wantLines("events", w.news(),
					"kept Normal Preempted: Preempted by pod bank/big on node n1 (in the scheduler's memory).")
				w.want("where autoscalers are told that the victim goes", w.nominated("shop/kept"), "")
				time.Sleep(10 * time.Second) // the backoff of an error
				synctest.Wait()
				w.want("queue", w.counts(), "1 unschedulable")
			}, berth("n1", 4))
		})
	}
}
