package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// CoschedulingKind is the PodGroup of the coscheduling plugin.
var CoschedulingKind = podgroups.CoschedulingResource.GroupVersion().WithKind("PodGroup")

// PodGroup reads the PodGroup that the pods of a group name; nil if it does not exist. Pods of
// other sources name none.
func (r Reader) PodGroup(ctx context.Context, key podgroups.Key) (*schedulingv1beta1.PodGroup, error) {
	name := client.ObjectKey{Namespace: key.Namespace, Name: key.Name}
	var group *schedulingv1beta1.PodGroup
	var err error
	switch key.Source {
	case podgroups.Native:
		group = &schedulingv1beta1.PodGroup{}
		err = r.Cluster.Client.Get(ctx, name, group)
	case podgroups.Coscheduling:
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(CoschedulingKind)
		if err = r.Cluster.Client.Get(ctx, name, object); err == nil {
			group = podgroups.FromCoscheduling(object)
		}
	}
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("PodGroup %s: %w", name, cluster.UserError(err))
	}
	return group, nil
}

// PendingMembers returns the pods of a group that have no node, of all profiles that run when p
// does, the oldest first.
func (s *State) PendingMembers(p *Profile, key podgroups.Key) (members []*v1.Pod) {
	for _, pod := range s.Pods {
		if named, ok := podgroups.KeyOf(pod); ok && named == key && pod.Spec.NodeName == "" && p.Serves(pod.Spec.SchedulerName) {
			members = append(members, pod)
		}
	}
	slices.SortFunc(members, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return members
}
