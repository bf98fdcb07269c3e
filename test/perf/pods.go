package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// The room of a node, and the image that nobody pulls.
const (
	nodeCPU, nodeMemory, nodePods = "4", "32Gi", 110
	image                         = "registry.k8s.io/pause:3.10.2"
)

// How many Deployments, Services, groups and sizes shapes of these names have.
const deployments, serviceCount, groups, sizes = 200, 10, 50, 1000

// sized returns what makes pods of one size.
func sized(name, cpu, memory string) *fixture.PodBuilder {
	return fixture.Pod(namespace+"/"+name).Requests("cpu", cpu, "memory", memory).Mutate(func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = image
	})
}

func plain(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder { return sized(fmt.Sprintf("%s-%d", prefix, i), "100m", "500Mi") }
}

// replica makes pods of all Deployments in turn. Sizes differ, so that each
// Deployment is a class of its own; on average a pod wants 275m and 512Mi.
func replica(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % deployments
		cpu, memory := fmt.Sprintf("%dm", 50+50*(of%10)), fmt.Sprintf("%dMi", 128+128*(of%7))
		return sized(fmt.Sprintf("%s-%d-%d", prefix, of, i/deployments), cpu, memory).
			Label("app", app(of)).Owner("ReplicaSet", app(of))
	}
}

func app(i int) string { return fmt.Sprintf("app-%d", i) }

func near(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "blue").RequirePodAffinity(fixture.PodAffinityTerm(corev1.LabelTopologyZone, "color", "blue"))
	}
}

func inTwoZones(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(zoneKey, "zone-0", "zone-1")))
	}
}

func evenly(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "blue").Spread(corev1.TopologySpreadConstraint{
			MaxSkew: 5, TopologyKey: zoneKey, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}},
		})
	}
}

func grouped(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		group := fmt.Sprintf("group-%d", i%groups)
		return plain(prefix)(i).Label("group", group).RequirePodAntiAffinity(fixture.PodAffinityTerm(corev1.LabelHostname, "group", group))
	}
}

func rather(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "red").PreferPodAffinity(1, fixture.PodAffinityTerm(corev1.LabelHostname, "color", "red"))
	}
}

// served makes pods of Services; every other one has a ReplicaSet as well.
func served(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % serviceCount
		pod := plain(prefix)(i).Label("app", app(of))
		if i/serviceCount%2 == 1 {
			pod.Owner("ReplicaSet", app(of))
		}
		return pod
	}
}

func distinct(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		of := i % sizes
		return sized(fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("%dm", 50+of%100), fmt.Sprintf("%dMi", 300+of))
	}
}

// mixed makes a pod of each of five kinds in turn.
func mixed(prefix string) func(int) *fixture.PodBuilder {
	kinds := []func(string) func(int) *fixture.PodBuilder{plain, evenly, nearOne, grouped, replica}
	return func(i int) *fixture.PodBuilder {
		return kinds[i%len(kinds)](fmt.Sprintf("%s-%d", prefix, i%len(kinds)))(i / len(kinds))
	}
}

// nearOne is near where pods of other kinds, and more zones, are there too.
func nearOne(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("side", "near").RequirePodAffinity(fixture.PodAffinityTerm(zoneKey, "side", "near"))
	}
}

func filling(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder { return sized(fmt.Sprintf("%s-%d", prefix, i), nodeCPU, "4Gi") }
}

func humble(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return sized(fmt.Sprintf("%s-%d", prefix, i), "900m", "500Mi").StartTime(i)
	}
}

func greedy(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return sized(fmt.Sprintf("%s-%d", prefix, i), "3", "500Mi").Priority(10)
	}
}
