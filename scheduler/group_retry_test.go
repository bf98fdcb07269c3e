package scheduler

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
)

// mostRefusals is how often refuser refuses a pod: a scheduler that tries the pod without end
// would not let the virtual time advance.
const mostRefusals = 1000

// refuser refuses the pods with the label refused, at the extension point that it names.
type refuser struct{ refusals *int }

func (refuser) Name() string { return "Refuser" }

func (r refuser) refuse(pod *v1.Pod, point string) *fwk.Status {
	if pod.Labels["refused"] != point || *r.refusals == mostRefusals {
		return nil
	}
	*r.refusals++
	return fwk.NewStatus(fwk.Unschedulable, "refused by its label")
}

func (r refuser) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	return r.refuse(pod, "permit"), 0
}

func (refuser) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (r refuser) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return r.refuse(pod, "prebind")
}

// Its group has enough pods without it, so that the group fits each time.
func TestAMemberThatAPluginRefusesIsTriedAgainAfterABackoff(t *testing.T) {
	for _, point := range []string{"permit", "prebind"} {
		t.Run(point, func(t *testing.T) {
			refusals := 0
			registry, err := plugins.With(plugins.InTree(), plugins.Register("Refuser",
				func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return refuser{&refusals}, nil }, refuser{}, nil))
			if err != nil {
				t.Fatal(err)
			}
			runTestWith(t, registry, func(env *testEnv) {
				env.profile("p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}, {Name: "Refuser"}}}})
				defer env.startLeading()()
				pods := gang("a", 3, 2)
				pods[1].(*v1.Pod).Labels = map[string]string{"refused": point}
				env.create(pods...)
				env.wantBound(time.Minute, "a 2, b 0")
				if refusals < 3 || refusals > 20 {
					t.Errorf("%d attempts in a minute, want one after each backoff", refusals)
				}
			}, nodesWithCPUs(2, 8)...)
		})
	}
}
