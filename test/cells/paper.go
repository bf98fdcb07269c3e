package cells

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
)

// The plugins of the cells' profiles. Each stands at Points.
const (
	Decider    = "Judge" // has the say
	Referenced = "Visitor"
	Added      = "Newcomer"
	Sort       = "Sorts"
	OtherSort  = "SortsToo"
)

// Broken are arguments with which no Judge can be built.
const BrokenArgument = "broken"

// Points are where a plugin called name stands.
func PluginPoints(name string) []framework.Point {
	if name == Sort || name == OtherSort {
		return []framework.Point{framework.QueueSort}
	}
	var most []framework.Point
	for _, at := range framework.Points {
		if at != framework.QueueSort && at != framework.Bind {
			most = append(most, at)
		}
	}
	return most
}

// Args are the arguments of the cells' plugins.
type Args struct {
	metav1.TypeMeta
	Mark string `json:"mark,omitempty"`
}

// DeepCopyObject makes Args a runtime.Object.
func (a *Args) DeepCopyObject() runtime.Object { clone := *a; return &clone }

// Spec is what a profile's user writes.
type Spec = v1alpha1.SchedulingProfileSpec

// NewSpec is what is written first, with a PluginConfig called config. Nobody
// flushes.
func NewSpec(config string) Spec {
	s := Spec{
		State: v1alpha1.StateActive, Base: v1alpha1.BaseNone, Plugins: &v1alpha1.Plugins{},
		Queue: v1alpha1.QueuePolicy{
			InitialBackoffSeconds: ptr.To[int32](10), MaxBackoffSeconds: ptr.To[int32](60), FlushAfterSeconds: ptr.To[int32](0),
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

// NewConfig is that PluginConfig.
func NewConfig(name string) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.PluginConfigSpec{Plugin: Referenced, Args: Arguments("")},
	}
}

// Enable enables plugins.
func Enable(set *v1alpha1.PluginSet, names ...string) {
	for _, name := range names {
		set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: name})
	}
}

// Mark gives the Judge other arguments.
func Mark(text string) func(*Spec) {
	return func(s *Spec) { s.PluginConfig[0].Args = ptr.To(Arguments(text)) }
}

// Arguments are what a user writes for a plugin.
func Arguments(mark string) runtime.RawExtension {
	raw, err := json.Marshal(map[string]string{"mark": mark})
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: raw}
}
