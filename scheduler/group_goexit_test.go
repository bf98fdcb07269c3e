package scheduler

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
)

// runWithPluginForGroups runs a test under a leader whose profile p has GangScheduling and an
// out-of-tree plugin.
func runWithPluginForGroups(t *testing.T, plugin fwk.Plugin, test func(env *testEnv), objects ...runtime.Object) {
	registry, err := plugins.With(plugins.InTree(), plugins.Register(plugin.Name(),
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }, plugin, nil))
	if err != nil {
		t.Fatal(err)
	}
	runTestWith(t, registry, func(env *testEnv) {
		env.profile("p", &v1alpha1.Plugins{
			MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin.Name()}, {Name: "GangScheduling"}}},
			QueueSort:  v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: plugin.Name()}}},
		})
		defer env.startLeading()()
		test(env)
	}, objects...)
}
