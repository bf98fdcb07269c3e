package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podsNamespace is the namespace of the demo's Deployments.
const podsNamespace = "default"

// deploy creates a Deployment of such pods as deployment has.
func (s *demo) deploy(ctx context.Context, name string, replicas int, cpu string) error {
	return s.create(ctx, deployment(name, replicas, cpu))
}

// deployment returns a Deployment whose pods have the schedulerName of the profile and
// request cpu and 1Gi each.
func deployment(name string, replicas int, cpu string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	container := corev1.Container{
		Name: "app", Image: "none", Command: []string{"serve"}, Args: []string{"--port=8080"},
		Env: []corev1.EnvVar{{Name: "MODE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "mode", Optional: new(true),
		}}}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
	}
	container.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{SchedulerName: profileName, Containers: []corev1.Container{container}},
			},
		},
	}
}

func (s *demo) create(ctx context.Context, d *appsv1.Deployment) error {
	_, err := s.cp.Client().AppsV1().Deployments(podsNamespace).Create(ctx, d, metav1.CreateOptions{})
	if err == nil {
		pod := &d.Spec.Template.Spec
		s.printf("Deployment %s: replicas: %d, each of %s CPU, schedulerName: %s", d.Name, *d.Spec.Replicas, pod.Containers[0].Resources.Requests.Cpu(), pod.SchedulerName)
	}
	return err
}

// scale sets the replicas of a Deployment.
func (s *demo) scale(ctx context.Context, name string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.cp.Client().AppsV1().Deployments(podsNamespace).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	return err
}

// grow scales a Deployment by ten pods at a time, so that pods arrive for a second or two.
func (s *demo) grow(ctx context.Context, name string, from, to int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := from + 10; ; n += 10 {
		if err := s.scale(ctx, name, min(n, to)); err != nil || n >= to {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// missingBoundPod returns a description of what is missing while no pod of app is bound;
// empty otherwise.
func (s *demo) missingBoundPod(ctx context.Context, app string) (string, error) {
	pods, err := s.pods(ctx, app)
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			return "", err
		}
	}
	return "a bound pod of " + app, err
}

func (s *demo) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	// From the watch cache, since this is polled.
	list, err := s.cp.Client().CoreV1().Pods(podsNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app=" + app, ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// waitForPods waits until app has exactly n pods and all of them run. Each must have a
// decision of the profile with its node and one of the generations.
func (s *demo) waitForPods(ctx context.Context, app string, n int, generations ...int64) ([]decidedPod, error) {
	var pods []corev1.Pod
	err := s.poll(ctx, func() (string, error) {
		var err error
		pods, err = s.pods(ctx, app)
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if len(pods) == n && running == n {
			return "", err
		}
		return fmt.Sprintf("%d running pods of %s: %d exist, %d are running", n, app, len(pods), running), err
	})
	if err != nil {
		return nil, err
	}
	var all []decidedPod
	for _, pod := range pods {
		p, err := readDecision(pod)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(generations, p.Generation) {
			return nil, fmt.Errorf("pod %s was bound by generation %d, want one of %v", p.pod, p.Generation, generations)
		}
		all = append(all, p)
	}
	s.boundPods += len(all)
	s.printf("%d of %d pods are running; pods per node and number of nodes: %s", len(all), n, distribution(all))
	return all, nil
}
