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

// reserver counts what is reserved for each pod.
type reserver struct{ held map[string]int }

func (reserver) Name() string { return "Reserver" }

func (r reserver) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	r.held[pod.Name]++
	return nil
}

func (r reserver) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	r.held[pod.Name]--
}

func TestWhatIsReservedForAGroupIsGivenBack(t *testing.T) {
	r := reserver{map[string]int{}}
	registry, err := plugins.With(plugins.InTree(), plugins.Register("Reserver",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return r, nil }, reserver{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	runTestWith(t, registry, func(env *testEnv) {
		env.profile("p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}, {Name: "Reserver"}}}})
		defer env.startLeading()()
		env.create(gang("a", 2, 2)...)
		env.create(gang("b", 3, 3)...) // of which two fit
		env.wantBound(time.Minute, "a 2, b 0")
		for _, object := range append(gang("a", 2, 2), gang("b", 3, 3)...) {
			name, want := object.(*v1.Pod).Name, 0
			if name[0] == 'a' {
				want = 1
			}
			if r.held[name] != want {
				t.Errorf("%s: reserved %d times, want %d", name, r.held[name], want)
			}
		}
	}, nodesWithCPUs(2, 8)...)
}
