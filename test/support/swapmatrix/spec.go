package swapmatrix

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
)

// The plugins of the profiles. Each implements PluginPoints.
const (
	Decider    = "Decider"    // blocks or rejects the pod
	Referenced = "Referenced" // has its arguments from the PluginConfig
	Added      = "Added"      // is added by a change
	Sort       = "Sort"
	OtherSort  = "OtherSort"
)

// BrokenArgument is an argument with which Decider cannot be built.
const BrokenArgument = "broken"

// PluginPoints returns the extension points of a plugin.
func PluginPoints(name string) []framework.Point {
	if name == Sort || name == OtherSort {
		return []framework.Point{framework.QueueSort}
	}
	var points []framework.Point
	for _, at := range framework.Points {
		if at != framework.QueueSort && at != framework.Bind {
			points = append(points, at)
		}
	}
	return points
}

// Args are the arguments of the plugins.
type Args struct {
	metav1.TypeMeta
	Mark string `json:"mark,omitempty"`
}

// DeepCopyObject makes Args a runtime.Object.
func (a *Args) DeepCopyObject() runtime.Object { clone := *a; return &clone }

// Spec is the spec of a profile.
type Spec = v1alpha1.SchedulingProfileSpec

// InitialBackoffSeconds is the initial backoff of the first spec.
const InitialBackoffSeconds = 10

// NewSpec returns the first spec, with a PluginConfig called config. Unschedulable pods are
// never flushed.
func NewSpec(config string) Spec {
	s := Spec{
		State: v1alpha1.StateActive, Base: v1alpha1.BaseNone, Plugins: &v1alpha1.Plugins{},
		Queue: v1alpha1.QueuePolicy{
			InitialBackoffSeconds: ptr.To[int32](InitialBackoffSeconds), MaxBackoffSeconds: ptr.To[int32](60), FlushAfterSeconds: ptr.To[int32](0),
		},
		PluginConfig: []v1alpha1.PluginArguments{
			{Name: Decider, Args: ptr.To(Arguments(""))},
			{Name: Referenced, ConfigRef: &v1alpha1.PluginConfigReference{Name: config}},
		},
	}
	Enable(&s.Plugins.MultiPoint, Decider, Referenced)
	Enable(&s.Plugins.QueueSort, Sort)
	Enable(&s.Plugins.Bind, defaultbinder.Name)
	return s
}

// NewConfig returns that PluginConfig.
func NewConfig(name string) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.PluginConfigSpec{Plugin: Referenced, Args: Arguments("")},
	}
}

// Enable adds plugins to the enabled ones of a set.
func Enable(set *v1alpha1.PluginSet, names ...string) {
	for _, name := range names {
		set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: name})
	}
}

// Mark returns an edit that changes the argument of Decider.
func Mark(text string) func(*Spec) {
	return func(s *Spec) { s.PluginConfig[0].Args = ptr.To(Arguments(text)) }
}

// Arguments returns arguments as a user writes them.
func Arguments(mark string) runtime.RawExtension {
	raw, err := json.Marshal(map[string]string{"mark": mark})
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: raw}
}
