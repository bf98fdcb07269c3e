package integration

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
)

// picky is a plugin that is built without a fault, and minds pods by their
// label of that name: it refuses them, or is at fault with them.
const picky = "Picky"

type pickyPlugin struct{}

var _ fwk.FilterPlugin = pickyPlugin{}

func newPicky(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return pickyPlugin{}, nil
}

func (pickyPlugin) Name() string { return picky }

func (pickyPlugin) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	switch pod.Labels["picky"] {
	case "refuses":
		return fwk.NewStatus(fwk.Unschedulable, "not a pod that is liked")
	case "panics":
		panic("no map for " + pod.Name)
	case "errs":
		return fwk.NewStatus(fwk.Error, "the inventory does not answer")
	case "hangs":
		<-ctx.Done()
	}
	return nil
}

func pickily(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{Filter: enabled(picky)}
}
