package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// labelRejecter is a plugin that rejects, at one extension point, the pods whose label names
// it; with the mark "open" it rejects none. It registers for an event that never comes.
type labelRejecter struct {
	name     string
	allowAll bool
}

const rejectedBy = "kept-by"

func (o *labelRejecter) Name() string { return o.name }

func (o *labelRejecter) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}}}, nil
}

func (o *labelRejecter) status(pod *v1.Pod) *fwk.Status {
	if slices.Contains(strings.Split(pod.Labels[rejectedBy], "."), o.name) && !o.allowAll {
		return fwk.NewStatus(fwk.Unschedulable, "kept by "+o.name)
	}
	return nil
}

// One type for each extension point.
type (
	gatePlugin       struct{ *labelRejecter }
	preFilterPlugin  struct{ *labelRejecter }
	filterPlugin     struct{ *labelRejecter }
	postFilterPlugin struct{ *labelRejecter }
	scorePlugin      struct{ *labelRejecter }
	reservePlugin    struct{ *labelRejecter }
	permitPlugin     struct{ *labelRejecter }
	bindPlugin       struct{ *labelRejecter }
)

func (o gatePlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status { return o.status(pod) }

func (o preFilterPlugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (o preFilterPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (o filterPlugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	return o.status(pod)
}

func (o postFilterPlugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (o scorePlugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (o scorePlugin) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (o scorePlugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (o reservePlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return o.status(pod)
}

func (o reservePlugin) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func (o permitPlugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	return o.status(pod), 0
}

func (o bindPlugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Skip)
}

func (o bindPlugin) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (o bindPlugin) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) {}

// rejecterRegistry returns a registry with two plugins for each extension point.
func rejecterRegistry() framework.Registry {
	r := framework.Registry{defaultbinder.Name: {
		Name: defaultbinder.Name, New: defaultbinder.New, Points: []framework.Point{framework.Bind},
	}}
	add := func(name string, as func(*labelRejecter) fwk.Plugin, points ...framework.Point) {
		r[name] = framework.Registration{
			Name: name, Points: points, NewArgs: func() runtime.Object { return &swapmatrix.Args{} },
			New: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
				return as(&labelRejecter{name, args.(*swapmatrix.Args).Mark == "open"}), nil
			},
		}
	}
	for _, which := range []string{"", "2"} {
		add("Sort"+which, func(o *labelRejecter) fwk.Plugin { return sortPlugin{o} }, framework.QueueSort)
		add("Gate"+which, func(o *labelRejecter) fwk.Plugin { return gatePlugin{o} }, framework.PreEnqueue)
		add("Ahead"+which, func(o *labelRejecter) fwk.Plugin { return preFilterPlugin{o} }, framework.PreFilter)
		add("Fits"+which, func(o *labelRejecter) fwk.Plugin { return filterPlugin{o} }, framework.Filter)
		add("Room"+which, func(o *labelRejecter) fwk.Plugin { return postFilterPlugin{o} }, framework.PostFilter)
		add("Score"+which, func(o *labelRejecter) fwk.Plugin { return scorePlugin{o} }, framework.PreScore, framework.Score)
		add("Claims"+which, func(o *labelRejecter) fwk.Plugin { return reservePlugin{o} }, framework.Reserve)
		add("Permits"+which, func(o *labelRejecter) fwk.Plugin { return permitPlugin{o} }, framework.Permit)
		add("Binds"+which, func(o *labelRejecter) fwk.Plugin { return bindPlugin{o} }, framework.PreBind, framework.PostBind)
	}
	return r
}

type sortPlugin struct{ *labelRejecter }

func (sortPlugin) Less(a, b fwk.QueuedEntityInfo) bool { return a.GetPriority() > b.GetPriority() }

// newRejecterCase applies a profile with one plugin at each extension point, and creates a
// pod that is rejected at each point that can reject; one more pod is in a namespace that the
// profile does not allow.
func newRejecterCase(env *testEnv) *swapCase {
	c := &swapCase{testEnv: env, profileStore: newProfileStore(), unblocked: make(chan struct{})}
	s := &c.object.Spec
	*s = swapmatrix.Spec{
		Base: v1alpha1.BaseNone, Plugins: &v1alpha1.Plugins{}, Queue: s.Queue,
		PluginConfig:      []v1alpha1.PluginArguments{{Name: "Fits", ConfigRef: &v1alpha1.PluginConfigReference{Name: sharedConfig}}},
		AllowedNamespaces: namespacesLabelled("default"),
	}
	c.configs[sharedConfig].Spec.Plugin = "Fits"
	swapmatrix.Enable(&s.Plugins.MultiPoint, "Gate", "Ahead", "Fits", "Room", "Score", "Claims", "Permits", "Binds", "Sort", defaultbinder.Name)
	profileUser{c}.Edit(nil)
	c.becomeLeader()
	for pod, keeper := range map[string]string{"gated": "Gate", "fitsNowhere": "Fits.Gate2", "unclaimed": "Claims", "unpermitted": "Permits"} {
		c.create(fixture.Pod(pod).UID(pod).SchedulerName("p").Label(rejectedBy, keeper).Obj())
	}
	c.create(fixture.Pod("other/elsewhere").SchedulerName("p").Obj())
	time.Sleep(time.Hour)
	c.want("the queue before", c.counts(), "3 unschedulable, 1 gated, 1 held")
	c.events.take()
	return c
}

// namespacesLabelled allows the namespaces that have the label.
func namespacesLabelled(label string) v1alpha1.AllowedNamespaces {
	return v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{
		MatchLabels: map[string]string{label: "yes"},
	}}
}

// triedPods returns the pods that were tried since the last call, sorted.
func (c *swapCase) triedPods() string {
	time.Sleep(time.Hour)
	synctest.Wait()
	names := sets.New[string]()
	for _, line := range c.events.take() {
		// Events about a hold do not count.
		if !strings.Contains(line, "the pod waits until") {
			names.Insert(strings.Fields(line)[0])
		}
	}
	return strings.Join(sets.List(names), " ")
}

// withoutPlugin removes a plugin.
func withoutPlugin(name string) func(*swapmatrix.Spec) {
	return func(s *swapmatrix.Spec) {
		s.Plugins.MultiPoint.Enabled = slices.DeleteFunc(s.Plugins.MultiPoint.Enabled, func(p v1alpha1.EnabledPlugin) bool { return p.Name == name })
		s.PluginConfig = slices.DeleteFunc(s.PluginConfig, func(p v1alpha1.PluginArguments) bool { return p.Name == name })
	}
}

// withPlugin adds a plugin.
func withPlugin(name string) func(*swapmatrix.Spec) {
	return func(s *swapmatrix.Spec) { swapmatrix.Enable(&s.Plugins.MultiPoint, name) }
}

// withArguments sets a plugin's arguments.
func withArguments(name, mark string) func(*swapmatrix.Spec) {
	return func(s *swapmatrix.Spec) {
		s.PluginConfig = append(s.PluginConfig, v1alpha1.PluginArguments{Name: name, Args: ptr.To(swapmatrix.Arguments(mark))})
	}
}
