package debug

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// testEnv is a Debugger of a scheduler in which shop/runs is bound to n1, shop/goes is
// assumed there, shop/waits was refused by Fit, and shop/held is held. loopHangs says
// that the scheduling cycle does not end.
type testEnv struct {
	Debugger
	t         *testing.T
	loopHangs bool
	// nodes and pods are what the API server has.
	nodes []*v1.Node
	pods  []*v1.Pod
	reads int
}

// fakeProfiles is one profile, "p".
type fakeProfiles struct{}

func (fakeProfiles) Names() []string { return []string{"p"} }

func (fakeProfiles) Statuses() []profile.Status {
	return []profile.Status{{
		Name: "p", Since: noon, References: 3, OldGenerations: 1, AbandonedCalls: 2, Degradations: profile.Degradations{{Reason: profile.PluginHangs, Message: "Odd has abandoned calls"}},
		Blueprint: &compile.Blueprint{Name: "p", Generation: 7, Hash: "abc", Chains: framework.Chains{
			framework.Filter: {{Name: "NodeName"}, {Name: "Fit"}}, framework.Bind: {{Name: "DefaultBinder"}},
		}},
		Generation: &profile.Generation{},
	}}
}

func pod(name string) *fixture.PodBuilder {
	return fixture.Pod("shop/"+name).SchedulerName("p").Requests("cpu", "500m")
}

func newTestEnv(t *testing.T) *testEnv {
	w := &testEnv{t: t, nodes: []*v1.Node{testNode("n1"), testNode("n2")}, pods: []*v1.Pod{
		pod("runs").On("n1").Obj(), pod("goes").Obj(), pod("waits").Obj(), pod("held").Obj(),
	}}
	w.Debugger = Debugger{
		Queue: queue.New(queue.Options{Clock: clocktesting.NewFakeClock(noon)}), Cache: cache.New(),
		WaitingPods: framework.NewWaitingPods(clocktesting.NewFakeClock(noon)), Profiles: fakeProfiles{}, BetweenCycles: w.betweenCycles,
		Now: func() time.Time { return noon },
	}
	ctx := klog.NewContext(t.Context(), klog.Background())
	w.Queue.SetProfile(ctx, "p", &queue.Rules{
		Hash: "abc", Sort: "Priority", Less: framework.ByPriority,
		Hold: func(pod *v1.Pod) queue.Hold {
			if pod.Name == "held" {
				return queue.Hold{Reason: queue.Unsupported, Message: "spec.secret: swordfish"}
			}
			return queue.Hold{}
		},
		PreEnqueue: func(context.Context, *v1.Pod, string) string { return "" },
	})
	for _, node := range w.nodes {
		w.Cache.SetNode(node)
	}
	w.Cache.SetPod(w.pods[0])
	for _, pod := range w.pods[1:] {
		w.Queue.Add(ctx, pod)
	}
	w.popAttempt("goes")
	w.assume(w.pods[1], "n1")
	w.popAttempt("waits").Refused(ctx, sets.New("Fit"), nil)
	return w
}

func testNode(name string) *v1.Node {
	return fixture.Node(name).Capacity("cpu", "4", "pods", "10").Obj()
}

// popAttempt begins the attempt of the next pod, which must be the one of that name.
func (w *testEnv) popAttempt(name string) *queue.Attempt {
	w.t.Helper()
	a := w.Queue.TryPop()
	if a == nil || a.Pod.Name != name {
		w.t.Fatalf("popped %+v, want %s", a, name)
	}
	return a
}

func (w *testEnv) assume(pod *v1.Pod, node string) {
	w.t.Helper()
	info, _ := framework.NewPodInfo(pod)
	if err := w.Cache.AssumePod(info, node); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testEnv) betweenCycles(ctx context.Context, look func()) error {
	if w.loopHangs {
		return errors.New("the scheduling cycle did not end")
	}
	w.Cache.UpdateSnapshot()
	look()
	return nil
}

// readAPIServer returns what the API server has.
func (w *testEnv) readAPIServer(context.Context) (*APIServerState, error) {
	w.reads++
	state := NewAPIServerState()
	for _, node := range w.nodes {
		state.AddNode(node)
	}
	for _, pod := range w.pods {
		state.AddPod(pod)
	}
	return state, nil
}

func uidOf(name string) types.UID { return pod(name).Obj().UID }
