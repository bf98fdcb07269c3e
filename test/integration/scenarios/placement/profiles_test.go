package placement

import (
	"encoding/json"

	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// The profiles, by what sets them apart. A pod that names no scheduler waits
// for the usual one, which is kube-scheduler's default.
const (
	usual = v1.DefaultSchedulerName
	// other is the same under another name.
	other = "other"
	// leastGPU and mostGPU rank nodes by CPU, memory and, twice as much, GPUs.
	leastGPU = "least-gpu"
	mostGPU  = "most-gpu"
	// These rank nodes by one plugin alone.
	byNodes  = "by-nodes"
	byPods   = "by-pods"
	byTaints = "by-taints"
	byImages = "by-images"
	bySpread = "by-spread"
)

// gpu is a resource that only some know of.
const gpu = "example.com/gpu"

// profiles are what a user would have applied.
func profiles() map[string]v1alpha1.SchedulingProfileSpec {
	all := map[string]v1alpha1.SchedulingProfileSpec{
		usual:    {},
		other:    {},
		leastGPU: byRoom(configv1.LeastAllocated),
		mostGPU:  byRoom(configv1.MostAllocated),
		byNodes:  alone("NodeAffinity", true),
		byPods:   alone("InterPodAffinity", true),
		byTaints: alone("TaintToleration", true),
		byImages: alone("ImageLocality", false),
		bySpread: alone("PodTopologySpread", true),
	}
	for name, spec := range all {
		// A pod that was refused is left to the events, and of one that was not
		// the annotation names the best nodes.
		spec.Queue.FlushAfterSeconds = new(int32(0))
		spec.Decisions.Detail, spec.Decisions.TopScores = v1alpha1.DetailNodes, new(int32(10))
		all[name] = spec
	}
	return all
}

// alone is the default profile, but for one plugin that ranks nodes alone;
// prepares says whether it does so in two steps.
func alone(plugin string, prepares bool) v1alpha1.SchedulingProfileSpec {
	nothing := v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}}
	only := nothing
	only.Enabled = []v1alpha1.EnabledPlugin{{Name: plugin}}
	plugins := &v1alpha1.Plugins{PreScore: nothing, Score: only}
	if prepares {
		plugins.PreScore = only
	}
	return v1alpha1.SchedulingProfileSpec{Plugins: plugins}
}

// byRoom is the default profile, but for how the resources of nodes count.
func byRoom(strategy configv1.ScoringStrategyType) v1alpha1.SchedulingProfileSpec {
	args, err := json.Marshal(configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
		Type: strategy, Resources: []configv1.ResourceSpec{
			{Name: string(v1.ResourceCPU), Weight: 1}, {Name: string(v1.ResourceMemory), Weight: 1}, {Name: gpu, Weight: 2},
		},
	}})
	Expect(err).NotTo(HaveOccurred())
	return v1alpha1.SchedulingProfileSpec{PluginConfig: []v1alpha1.PluginArguments{
		{Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: args}},
	}}
}
