package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/fixture"
)

// The room of a node, and the image that nobody pulls.
const (
	nodeCPU, nodeMemory, nodePods = "4", "32Gi", 110
	image                         = "registry.k8s.io/pause:3.10.2"
)

// shape is one load: what the pods are like, and what else is there. Those
// that upstream has too are the ones of
// k8s.io/kubernetes/test/integration/scheduler_perf, by size and by wish.
type shape struct {
	name string
	// says is what a reader of a table needs to know.
	says string
	// needs are the plugins without which the load measures nothing.
	needs []string
	// zones is over how many zones the nodes go; 0 leaves it to --zones.
	zones int
	// alone says that no two of its pods go on one node; interleaved, that they
	// differ from one to the next.
	alone, interleaved bool
	// pod and existing return the i-th pod to be scheduled, and the i-th that
	// is there already.
	pod, existing func(i int) *fixture.PodBuilder
	// objects are what else is there; may be nil.
	objects func() []runtime.Object
}

// deployments is how many Deployments the shape of that name has.
const deployments = 200

// shapes is what can be measured, in the order of the tables.
var shapes = []shape{
	{
		name: "basic", says: "one shape of pod, 100m and 500Mi",
		pod: plain("pod"), existing: plain("old"),
	},
	{
		name: "deployments", says: "pods of 200 ReplicaSets in turn, each of another size",
		pod: replica("web"), existing: replica("old"), objects: replicaSets, interleaved: true,
	},
	{
		name: "node-affinity", says: "basic, and each wants one of two zones", zones: 3,
		pod: func(i int) *fixture.PodBuilder {
			return plain("pod")(i).RequireNode(fixture.Term(fixture.In(corev1.LabelTopologyZone, "zone-0", "zone-1")))
		},
		existing: plain("old"), needs: []string{"NodeAffinity"},
	},
	{
		name: "spread", says: "basic, and evenly over zones, with a skew of 5 at most",
		pod: func(i int) *fixture.PodBuilder {
			return plain("pod")(i).Label("color", "blue").Spread(corev1.TopologySpreadConstraint{
				MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}},
			})
		},
		existing: plain("old"), needs: []string{"PodTopologySpread"},
	},
	{
		name: "affinity", says: "basic, and in the zone of the others, of which there is one", zones: 1,
		pod: near("pod"), existing: near("old"), needs: []string{"InterPodAffinity"},
	},
	{
		name: "anti-affinity", says: "basic, and on a node without any of the others", alone: true,
		pod: apart("pod"), existing: apart("old"), needs: []string{"InterPodAffinity"},
	},
}

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
		return plain(prefix)(i).Label("color", "blue").RequirePods(fixture.Near(corev1.LabelTopologyZone, "color", "blue"))
	}
}

func apart(prefix string) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return plain(prefix)(i).Label("color", "green").RefusePods(fixture.Near(corev1.LabelHostname, "color", "green"))
	}
}

// missing returns the plugins that the shape needs and here has not.
func (s shape) missing(here func(plugin string) bool) []string {
	var missing []string
	for _, plugin := range s.needs {
		if !here(plugin) {
			missing = append(missing, plugin)
		}
	}
	return missing
}
