package integration

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// sluice holds pods up on their way, at the points where a profile enables it.
const sluice = "Sluice"

// sluices are what holds up every pod at a point while it is shut: PreFilter
// stops the loop itself, PreEnqueue whoever brings a pod with the label slow,
// Permit and PreBind the pod alone. They begin open.
var sluices struct{ preEnqueue, preFilter, permit, preBind turnstile }

type sluicePlugin struct{ handle fwk.Handle }

var (
	_ fwk.PreEnqueuePlugin = (*sluicePlugin)(nil)
	_ fwk.PreFilterPlugin  = (*sluicePlugin)(nil)
	_ fwk.PermitPlugin     = (*sluicePlugin)(nil)
	_ fwk.PreBindPlugin    = (*sluicePlugin)(nil)
)

func newSluice(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &sluicePlugin{handle}, nil
}

// onTrial says that nobody is on the way who could be held up.
func (s *sluicePlugin) onTrial() bool { return s.handle.(framework.TrialHandle).OnTrial() }

func (*sluicePlugin) Name() string { return sluice }

func (s *sluicePlugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Labels["slow"] == "" || s.onTrial() {
		return nil
	}
	return fwk.AsStatus(sluices.preEnqueue.pass(ctx))
}

func (s *sluicePlugin) PreFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if s.onTrial() {
		return nil, nil
	}
	return nil, fwk.AsStatus(sluices.preFilter.pass(ctx))
}

func (*sluicePlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (s *sluicePlugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if sluices.permit.open() {
		return nil, 0
	}
	go func() {
		if sluices.permit.pass(ctx) == nil {
			if waiting := s.handle.GetWaitingPod(pod.UID); waiting != nil {
				waiting.Allow(sluice)
			}
		}
	}()
	return fwk.NewStatus(fwk.Wait), time.Minute
}

func (*sluicePlugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if sluices.preBind.open() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (*sluicePlugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	return fwk.AsStatus(sluices.preBind.pass(ctx))
}

// sluicedAt enables the plugin at one point.
func sluicedAt(point func(*v1alpha1.Plugins) *v1alpha1.PluginSet) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		if s.Plugins == nil {
			s.Plugins = &v1alpha1.Plugins{}
		}
		set := point(s.Plugins)
		set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: sluice})
	}
}

func atPreEnqueue(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreEnqueue }

func atPreFilter(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreFilter }
func atPermit(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.Permit }
func atPreBind(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PreBind }
