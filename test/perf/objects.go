package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fixture"
)

// podBuilder is one pod in the making.
type podBuilder = *fixture.PodBuilder

// namespace is where all pods of a load are, and profile who schedules them.
const namespace, profile = "bench", "bench"

// services are those of the shape default-spread, with the ReplicaSets that own
// every other of its pods.
func services() []runtime.Object {
	var all []runtime.Object
	for i := range serviceCount {
		all = append(all, fixture.Service(namespace+"/"+app(i), "app", app(i)), replicaSet(i))
	}
	return all
}

// replicaSets are the owners of the pods of the shape deployments. Nobody
// makes pods for them: no controller runs.
func replicaSets() []runtime.Object {
	var all []runtime.Object
	for i := range deployments {
		all = append(all, replicaSet(i))
	}
	return all
}

func replicaSet(i int) runtime.Object {
	labels := map[string]string{"app": app(i)}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app(i), Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c0", Image: image}}},
			},
		},
	}
}

// extras are the objects of the shape beside nodes and pods.
func (s shape) extras() []runtime.Object {
	if s.objects == nil {
		return nil
	}
	return s.objects()
}

// waits returns the i-th pod to be scheduled.
func (s shape) waits(i int) *corev1.Pod { return s.pod(i).SchedulerName(profile).Obj() }

// runs returns the i-th pod that is there already, on one of so many nodes in
// turn.
func (s shape) runs(i, nodes int) *corev1.Pod {
	at := i % nodes
	if s.on != nil {
		at = s.on(i, nodes)
	}
	return s.old(i).On(nodeName(at)).Obj()
}

// zoned returns over how many zones the nodes go.
func (s shape) zoned(o options) int {
	return s.settled(o).zones
}

// nodeName is what test/support/controlplane calls the i-th node.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// zoneName is what it calls the i-th zone.
func zoneName(i int) string { return fmt.Sprintf("zone-%d", i) }

func metaNamed(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
