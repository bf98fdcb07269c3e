package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
)

const (
	// namespace is where all pods are, and profile who schedules them.
	namespace, profile = "soak", "soak"
	// The room of a node.
	milliCPU, podsANode = 4000, 110
	// fill is how full nodes get, in percent, when the pods are many: a node
	// that is given one pod too many shows.
	fill = 80
	// replicas is how many pods a Deployment has, but for the last.
	replicas = 100
)

// podCPU is what each pod requests, in thousandths of a core. Nobody knows how
// many a stream will have: so little that nodes run out of places first.
func (o options) podCPU() int64 {
	if o.stream > 0 {
		return milliCPU / podsANode
	}
	return min(1000, int64(milliCPU)*int64(o.nodes)*fill/100/int64(o.pods))
}

// template is of pods that look like those that users write: see fixture.Workload.
func (o options) template(app string) corev1.PodTemplateSpec {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(o.podCPU(), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulerName: profile,
			Containers: []corev1.Container{{
				Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests},
			}},
		},
	}
	fixture.AddWorkloadFields(&template.Spec)
	return template
}

// deployment is the i-th, of so many pods.
func (o options) deployment(i, pods int) *appsv1.Deployment {
	app := fmt.Sprintf("app-%d", i)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: o.template(app),
		},
	}
}

// crowd creates half of the pods by Deployments, and the other half itself.
func (s *soak) crowd(ctx context.Context) error {
	ours, theirs := s.options.pods/2, s.options.pods-s.options.pods/2
	deployments := (theirs + replicas - 1) / replicas
	s.say("%d pods of %dm CPU in %d Deployments, and %d pods by %d workers", theirs, s.options.podCPU(), deployments, ours, s.options.workers)
	return load.Each(ctx, deployments+ours, s.options.workers, func(ctx context.Context, i int) error {
		if i < deployments {
			d := s.options.deployment(i, min(replicas, theirs-i*replicas))
			_, err := s.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
			return err
		}
		return s.create(ctx, fmt.Sprintf("alone-%d", i-deployments))
	})
}

// create creates a pod that stands alone.
func (s *soak) create(ctx context.Context, name string) error {
	template := s.options.template("alone")
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = name
	_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
