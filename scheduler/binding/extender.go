package binding

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
)

// believe finds out what an extender that was to bind the pod has done, from a
// quorum read: neither its word that it did nor its word that it did not is a
// reason to believe it. It carries neither the decision nor a resource version,
// so that a Binding of it that is still on its way cannot be closed: one that
// lands later wins, once, and the pod is where the API server says.
func (b *Binding) verifyExtenderBind(ctx context.Context, f *Assignment, by string, said error) error {
	if said == nil && fault.ExtenderBindBelieved {
		return nil
	}
	pod := f.Info.GetPod()
	live, err := b.getLivePod(ctx, pod)
	switch {
	case err != nil && said != nil:
		return fmt.Errorf("%w; reading the pod afterwards: %w", said, err)
	case err != nil:
		return fmt.Errorf("%s said that it bound the pod; reading it afterwards: %w", by, err)
	case live == nil:
		return ErrGone
	case live.Spec.NodeName == f.Node:
		if said != nil {
			klog.FromContext(ctx).Info("The extender failed, and has bound the pod", "pod", klog.KObj(pod), "extender", by, "err", said.Error())
		}
		return nil
	case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
		return ErrGone
	case said != nil:
		return said
	}
	return fmt.Errorf("%s said that it bound the pod to its node, and it is not bound", by)
}
