package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unfitLabel marks the pods that fit nowhere.
const unfitLabel = "unfit"

// churnPod returns the i-th pod. Of a hundred pods one requests more than any node has, ten must be
// in one zone, ten spread over zones, ten prefer to be far from pods like them, and the others
// request resources only.
func (o options) churnPod(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i%20)
	template := o.template(app)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = fmt.Sprintf("pod-%d", i)
	alike := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	switch {
	case i%100 == 99:
		pod.Labels[unfitLabel] = "true"
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100")
	case i%10 == 1:
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i/10%3)}
	case i%10 == 4:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: alike,
		}}
	case i%10 == 7:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: alike},
			}},
		}}
	}
	return pod
}
