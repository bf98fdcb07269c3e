package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fixture"
)

// The capacity of a node, and an image that is never pulled.
const (
	nodeCPU, nodeMemory, nodePods = "4", "32Gi", 110
	image                         = "registry.k8s.io/pause:3.10.2"
)

// The numbers of Deployments, Services, groups and sizes in the shapes that have them.
const deployments, serviceCount, groups, sizes = 200, 10, 50, 1000

// sized returns a builder of a pod with these requests.
func sized(name, cpu, memory string) *fixture.PodBuilder {
	return fixture.Pod(namespace+"/"+name).Requests("cpu", cpu, "memory", memory).Mutate(func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = image
	})
}

func plain(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder { return sized(fmt.Sprintf("%s-%d", prefix, i), "100m", "500Mi") }
}

// replica builds pods of all Deployments in turn. Sizes differ, so that each Deployment is a
// pod class; the average pod requests 275m and 512Mi.
func replica(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % deployments
		cpu, memory := fmt.Sprintf("%dm", 50+50*(of%10)), fmt.Sprintf("%dMi", 128+128*(of%7))
		return sized(fmt.Sprintf("%s-%d-%d", prefix, of, i/deployments), cpu, memory).
			Label("app", app(of)).Owner("ReplicaSet", app(of))
	}
}

func app(i int) string { return fmt.Sprintf("app-%d", i) }

func withAffinity(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "blue").RequirePodAffinity(fixture.PodAffinityTerm(corev1.LabelTopologyZone, "color", "blue"))
	}
}

func inTwoZones(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(zoneKey, "zone-0", "zone-1")))
	}
}

func withSpread(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "blue").Spread(corev1.TopologySpreadConstraint{
			MaxSkew: 5, TopologyKey: zoneKey, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}},
		})
	}
}

func withAntiAffinity(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		group := fmt.Sprintf("group-%d", i%groups)
		return plain(prefix)(i).Label("group", group).RequirePodAntiAffinity(fixture.PodAffinityTerm(corev1.LabelHostname, "group", group))
	}
}

func withPreferredAffinity(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "red").PreferPodAffinity(1, fixture.PodAffinityTerm(corev1.LabelHostname, "color", "red"))
	}
}

// ofServices builds pods of Services; every other one has a ReplicaSet as well.
func ofServices(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % serviceCount
		pod := plain(prefix)(i).Label("app", app(of))
		if i/serviceCount%2 == 1 {
			pod.Owner("ReplicaSet", app(of))
		}
		return pod
	}
}

func ofManySizes(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % sizes
		return sized(fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("%dm", 50+of%100), fmt.Sprintf("%dMi", 300+of))
	}
}

// mixed builds a pod of each of five kinds in turn.
func mixed(prefix string) func(int) *fixture.PodBuilder {
	kinds := []func(string) func(int) *fixture.PodBuilder{plain, withSpread, withOwnAffinity, withAntiAffinity, replica}
	return func(i int) *fixture.PodBuilder {
		return kinds[i%len(kinds)](fmt.Sprintf("%s-%d", prefix, i%len(kinds)))(i / len(kinds))
	}
}

// withOwnAffinity is withAffinity where pods of other kinds and several zones exist.
func withOwnAffinity(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("side", "near").RequirePodAffinity(fixture.PodAffinityTerm(zoneKey, "side", "near"))
	}
}

func nodeSized(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder { return sized(fmt.Sprintf("%s-%d", prefix, i), nodeCPU, "4Gi") }
}

func lowPriority(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return sized(fmt.Sprintf("%s-%d", prefix, i), "900m", "500Mi").StartTime(i)
	}
}

func highPriority(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return sized(fmt.Sprintf("%s-%d", prefix, i), "3", "500Mi").Priority(10)
	}
}

// podBuilder is a shorter name.
type podBuilder = *fixture.PodBuilder

// namespace and profile are those of all pods of a load.
const namespace, profile = "bench", "bench"

// services are those of the shape default-spread, with the ReplicaSets that own every other
// pod.
func services() []runtime.Object {
	var all []runtime.Object
	for i := range serviceCount {
		all = append(all, fixture.Service(namespace+"/"+app(i), "app", app(i)), replicaSet(i))
	}
	return all
}

// replicaSets own the pods of the shape deployments. They create no pods, since no controller
// runs.
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

// pendingPod returns the i-th pod to be scheduled.
func (s shape) pendingPod(i int) *corev1.Pod { return s.pod(i).SchedulerName(profile).Obj() }

// existingPod returns the i-th bound pod, on one of the nodes in turn.
func (s shape) existingPod(i, nodes int) *corev1.Pod {
	at := i % nodes
	if s.on != nil {
		at = s.on(i, nodes)
	}
	return s.old(i).On(nodeName(at)).Obj()
}

// zoneCount is the number of zones.
func (s shape) zoneCount(o options) int {
	return s.withOverrides(o).zones
}

// nodeName is the name of the i-th node in test/support/controlplane.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// zoneName is the name of the i-th zone there.
func zoneName(i int) string { return fmt.Sprintf("zone-%d", i) }

func metaNamed(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
