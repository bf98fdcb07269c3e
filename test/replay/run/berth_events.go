package run

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/log"
)

// SetNode adds or replaces a node.
func (b *Berth) SetNode(_, after *v1.Node) { b.cache.SetNode(after) }

// RemoveNode removes a node.
func (b *Berth) RemoveNode(last *v1.Node) { b.cache.RemoveNode(last.Name) }

// SetPod does to the cache what intake does when it hears of a pod.
func (b *Berth) SetPod(before, after *v1.Pod) error {
	if after.Spec.NodeName != "" {
		b.cache.Confirm(after)
		b.cache.DeleteNominatedPodIfExists(after)
		return nil
	}
	if _, assumed := b.cache.Assumed(after.UID); assumed {
		return nil
	}
	info, _ := framework.NewPodInfo(after)
	if before == nil {
		b.cache.AddNominatedPod(klog.Background(), info, nil)
	} else {
		b.cache.UpdateNominatedPod(klog.Background(), before, info)
	}
	return nil
}

// RemovePod removes a pod and what it holds, be it assumed or promised.
func (b *Berth) RemovePod(last *v1.Pod) error {
	b.cache.DeleteNominatedPodIfExists(last)
	b.cache.Remove(last.UID)
	return nil
}

// SetObject puts an object where plugins find it, and tells the cache of it as
// intake does.
func (b *Berth) SetObject(object log.Object) error {
	b.tell(object)
	return b.Objects.SetObject(object)
}

// RemoveObject removes an object.
func (b *Berth) RemoveObject(object log.Object) error {
	b.tell(object)
	return b.Objects.RemoveObject(object)
}

func (b *Berth) tell(object log.Object) {
	switch object.(type) {
	case *v1.Namespace:
		b.cache.Changed(framework.NamespaceLabels)
	case *v1.Service, *v1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		b.cache.Changed(framework.PodOwners)
	}
}
