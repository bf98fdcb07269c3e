package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fits says why so many pods of the shape cannot all be bound, which a run
// would wait for until its deadline.
func (s shape) fits(o options, pods int) error {
	if s.game != nil && s.game.preempt {
		return nil // it is for want of room that they preempt
	}
	o = s.settled(o)
	if pods+o.existing > o.nodes*nodePods {
		return fmt.Errorf("--nodes: %d nodes take %d pods, not %d and %d existing ones", o.nodes, o.nodes*nodePods, pods, o.existing)
	}
	for name, offered := range map[corev1.ResourceName]string{corev1.ResourceCPU: nodeCPU, corev1.ResourceMemory: nodeMemory} {
		each := resource.MustParse(offered)
		room := each.MilliValue() * int64(o.nodes)
		wanted := total(s.pod, pods, name) + total(s.old, o.existing, name)
		// Pods of different sizes leave gaps: a tenth is kept free for them.
		if wanted > room-room/10 {
			return fmt.Errorf("--nodes: %d pods of shape %s and %d existing ones want %.0f%% of what %d nodes have of %s; at most 90%% can be filled for sure",
				pods, s.name, o.existing, 100*float64(wanted)/float64(room), o.nodes, name)
		}
	}
	return nil
}

// total is what the first n pods request of a resource, in thousandths.
func total(pod func(i int) podBuilder, n int, name corev1.ResourceName) int64 {
	sum := int64(0)
	for i := range n {
		quantity := pod(i).Obj().Spec.Containers[0].Resources.Requests[name]
		sum += quantity.MilliValue()
	}
	return sum
}
