//go:build schedulerplugins

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"time"
)

// activatingCoscheduling is Coscheduling with a Permit that activates the other pods of
// a group. The plugin requests the activation in the CycleState, in an object that
// kube-scheduler writes there and reads. The type of that object is in
// k8s.io/kubernetes, which Berth does not import.
type activatingCoscheduling struct {
	*coscheduling.Coscheduling
	handle fwk.Handle
}

func newActivatingCoscheduling(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin, err := coscheduling.New(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	return &activatingCoscheduling{plugin.(*coscheduling.Coscheduling), handle}, nil
}

// Permit calls the plugin's Permit, and activates the pods that it requests.
func (p *activatingCoscheduling) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	siblings := framework.NewPodsToActivate()
	state.Write(framework.PodsToActivateKey, siblings)
	status, wait := p.Coscheduling.Permit(ctx, state, pod, node)
	siblings.Lock()
	defer siblings.Unlock()
	if len(siblings.Map) > 0 {
		p.handle.Activate(klog.FromContext(ctx), siblings.Map)
	}
	return status, wait
}
