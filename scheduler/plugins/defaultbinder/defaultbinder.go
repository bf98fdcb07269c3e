// Package defaultbinder binds a pod through the API server.
package defaultbinder

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is the name of the plugin in profiles.
const Name = "DefaultBinder"

// Plugin posts Bindings with the client of the handle.
type Plugin struct{ handle fwk.Handle }

var _ fwk.BindPlugin = (*Plugin)(nil)

// New returns the plugin; it takes no arguments.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &Plugin{handle: handle}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Bind posts one Binding of pod to node, with the annotations and the resource version
// that the package binding left in state. The status holds the client's error
// unchanged. Bind does not retry: when the answer is lost the pod may be bound, and
// only the package binding can find that out.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data := framework.ReadBindingData(state)
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            pod.Name,
			UID:             pod.UID,
			ResourceVersion: data.ResourceVersion,
			Annotations:     data.Annotations,
		},
		Target: v1.ObjectReference{Kind: "Node", Name: node},
	}
	err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	return fwk.AsStatus(err)
}
