package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berthdev/berth/test/support/fixture"
)

// shapes can be measured, in the order of the tables.
var shapes = slices.Concat(standardShapes, deviceShapes, gangShapes, algorithmShapes)

// standardShapes are run by whole processes as well.
var standardShapes = []shape{
	{
		name: "basic", description: "one shape of pod, 100m and 500Mi", goal: 100,
		pod: plain("pod"), old: plain("old"),
	},
	{
		name: "deployments", description: "pods of 200 ReplicaSets in turn, each of another size", goal: 100,
		pod: replica("web"), old: replica("old"), objects: replicaSets, interleaved: true,
	},
	{
		name: "node-affinity", description: "basic, and each requires one of two zones", zones: 3,
		pod: inTwoZones("pod"), old: plain("old"), needs: []string{"NodeAffinity"},
	},
	{
		name: "spread", description: "basic, and evenly over zones, with a skew of 5 at most", goal: 100,
		pod: withSpread("pod"), old: plain("old"), needs: []string{"PodTopologySpread"},
	},
	{
		name: "affinity", description: "basic, and in the zone of the others, of which there is one", zones: 1, goal: 100,
		pod: withAffinity("pod"), old: withAffinity("old"), needs: []string{"InterPodAffinity"},
	},
	{
		name: "anti-affinity", description: "basic, in 50 groups in turn, and on a node without any other of its group", goal: 100,
		pod: withAntiAffinity("pod"), old: withAntiAffinity("old"), needs: []string{"InterPodAffinity"}, interleaved: true,
	},
	{
		name: "preferred-affinity", description: "basic, and preferably on a node with others", goal: 100,
		pod: withPreferredAffinity("pod"), old: withPreferredAffinity("old"), needs: []string{"InterPodAffinity"},
	},
	{
		name: "default-spread", description: "basic, of 10 Services in turn, every other pod of a ReplicaSet too", goal: 100,
		pod: ofServices("pod"), old: ofServices("old"), objects: services, needs: []string{"PodTopologySpread"}, interleaved: true,
	},
	{
		name: "thousand", description: "1,000 sizes of pod in turn", goal: 50,
		pod: ofManySizes("pod"), old: plain("old"), interleaved: true,
	},
	{
		name: "mixed", description: "in turn basic, spread, affinity, anti-affinity in 50 groups and deployments", goal: 50,
		pod: mixed("pod"), old: mixed("old"), objects: replicaSets, interleaved: true,
	},
	{
		name: "full", description: "basic, and four nodes of five are full", existing: 4000, goal: 50,
		pod: plain("pod"), old: nodeSized("old"), on: scattered,
	},
}

// deviceShapes have devices.
var deviceShapes = []shape{
	{
		name: "claims", description: "basic, each with a claim for one of ten devices of a node, five of which are allocated", nodes: 500, count: 2000,
		pod: plain("pod"), old: plain("old"), needs: []string{"DynamicResources"}, devices: &deviceOptions{},
	},
	{
		name: "claim-selectors", description: "claims, of one of two models by a CEL expression", nodes: 500, count: 1000,
		pod: plain("pod"), old: plain("old"), needs: []string{"DynamicResources"},
		devices: &deviceOptions{expression: `device.attributes["gpu.example.com"].model == "model-1"`},
	},
	{
		name: "extended-devices", description: "claims, by an extended resource that a DeviceClass backs", nodes: 500, count: 2000,
		pod: plain("pod"), old: plain("old"), needs: []string{"DynamicResources"}, devices: &deviceOptions{extended: true},
	},
}

// gangShapes have gangs.
var (
	gangShapes = []shape{
		{
			name: "gangs", description: "basic, in gangs of 1,000 pods", count: 5000,
			pod: inGangs(&gangsOfThousand, plain("pod")), old: plain("old"), gangs: &gangsOfThousand,
		},
		{
			name: "beside-gangs", description: "basic, of which one of three is in no gang, the others in gangs of 200; latencies are those of the former", count: 6000,
			pod: inGangs(&gangsAndPods, plain("pod")), old: plain("old"), gangs: &gangsAndPods,
		},
	}
	gangsOfThousand = gangOptions{size: 1000}
	gangsAndPods    = gangOptions{size: 200, single: 3}
)

// algorithmShapes are run by the algorithm layer alone.
var algorithmShapes = []shape{
	{
		name: "first", description: "1,000 pods, each of a size of its own", count: sizes, goal: 60,
		pod: ofManySizes("pod"), old: plain("old"), interleaved: true, algorithm: &algorithmOptions{},
	},
	{
		name: "few-replicas", description: "deployments, with five pods of each size", count: 5 * deployments, goal: 100,
		pod: replica("web"), old: replica("old"), objects: replicaSets, interleaved: true, algorithm: &algorithmOptions{},
	},
	{
		name: "large", description: "basic on 20,000 nodes in 100 zones", nodes: 20000, zones: 100, existing: 20000,
		pod: plain("pod"), old: plain("old"), algorithm: &algorithmOptions{},
	},
	{
		name: "all-nodes", description: "basic; Berth scores all nodes, kube-scheduler its sample", goal: 50,
		pod: plain("pod"), old: plain("old"), algorithm: &algorithmOptions{everyNode: true},
	},
	{
		name: "preempt", description: "1,000 pods of 3 CPU with a higher priority than the four on each node", existing: 20000, count: 1000, goal: 100,
		pod: highPriority("pod"), old: lowPriority("old"), needs: []string{"DefaultPreemption"}, algorithm: &algorithmOptions{preempt: true},
	},
	{
		name: "million", description: "a million pods on 100,000 nodes in 100 zones, with GOMEMLIMIT=3500MiB", nodes: 100000, zones: 100, existing: 1, count: 1000000,
		pod: plain("pod"), old: plain("old"), algorithm: &algorithmOptions{solo: true, memory: "3500MiB"},
	},
}

// scattered maps the i-th pod to a node in an order that looks random.
func scattered(i, nodes int) int { return i * 7919 % nodes }

// zoneKey is the label of a node's zone.
const zoneKey = corev1.LabelTopologyZone

// shape is a kind of pods with the other objects of the cluster. Some are those of
// k8s.io/kubernetes/test/integration/scheduler_perf, by size and constraints.
type shape struct {
	name string
	// description is used in tables.
	description string
	// needs are the plugins without which the load measures nothing.
	needs []string
	// nodes, zones, existing and count override the flags where they are not 0; count is the
	// number of pods to schedule.
	nodes, zones, existing, count int
	// interleaved says that pods differ from one to the next.
	interleaved bool
	// pod and old return the i-th pod to be scheduled, and the i-th existing one, on the node
	// that on returns; nil takes the nodes in turn.
	pod, old func(i int) *fixture.PodBuilder
	on       func(i, nodes int) int
	// objects returns the other objects; may be nil.
	objects func() []runtime.Object
	// goal is the least ratio of kube-scheduler's time to Berth's in the algorithm layer; 0
	// where there is none.
	goal float64
	// algorithm has the options of shapes for the algorithm layer alone; nil: whole processes
	// run the shape, too.
	algorithm *algorithmOptions
	// devices has the options of shapes whose pods get devices.
	devices *deviceOptions
	// gangs has the options of shapes whose pods are in gangs.
	gangs *gangOptions
}

// processOnly reports whether the algorithm layer leaves the shape out.
func (s shape) processOnly() bool { return s.gangs != nil || s.devices != nil && s.devices.extended }

// algorithmOptions are those of a shape that only the algorithm layer runs.
type algorithmOptions struct {
	// preempt runs PostFilter for pods that fit no node.
	preempt bool
	// everyNode has Berth score all feasible nodes, and kube-scheduler its usual sample: both
	// are timed so, and the decisions are compared with one more run of kube-scheduler with
	// all nodes.
	everyNode bool
	// solo leaves kube-scheduler out.
	solo bool
	// memory is the limit of the Go runtime (GOMEMLIMIT), like that of a manager in such a
	// cluster; empty for no limit.
	memory string
}

// withOverrides returns the options with the numbers of the shape.
func (s shape) withOverrides(o options) options {
	for _, f := range []struct {
		flag *int
		by   int
	}{{&o.nodes, s.nodes}, {&o.zones, s.zones}, {&o.existing, s.existing}, {&o.pods, s.count}} {
		if f.by > 0 {
			*f.flag = f.by
		}
	}
	return o
}

// missing returns the plugins that the shape needs and Berth lacks.
func (s shape) missing(here func(plugin string) bool) []string {
	var missing []string
	for _, plugin := range s.needs {
		if !here(plugin) {
			missing = append(missing, plugin)
		}
	}
	return missing
}

// checkCapacity fails where not all pods of the shape can be bound: a run would wait for them
// until its deadline.
func (s shape) checkCapacity(o options, pods int) error {
	if s.algorithm != nil && s.algorithm.preempt {
		return nil // these pods preempt others
	}
	o = s.withOverrides(o)
	if pods+o.existing > o.nodes*nodePods {
		return fmt.Errorf("--nodes: %d nodes take %d pods, not %d and %d existing ones", o.nodes, o.nodes*nodePods, pods, o.existing)
	}
	for name, offered := range map[corev1.ResourceName]string{corev1.ResourceCPU: nodeCPU, corev1.ResourceMemory: nodeMemory} {
		each := resource.MustParse(offered)
		capacity := each.MilliValue() * int64(o.nodes)
		requested := total(s.pod, pods, name) + total(s.old, o.existing, name)
		// Pods of different sizes leave gaps: a tenth is kept free for them.
		if requested > capacity-capacity/10 {
			return fmt.Errorf("--nodes: %d pods of shape %s and %d existing ones request %.0f%% of what %d nodes have of %s; at most 90%% is certain to fit",
				pods, s.name, o.existing, 100*float64(requested)/float64(capacity), o.nodes, name)
		}
	}
	return nil
}

// total is the sum of the first n pods' requests of a resource, in thousandths.
func total(pod func(i int) podBuilder, n int, name corev1.ResourceName) int64 {
	sum := int64(0)
	for i := range n {
		quantity := pod(i).Obj().Spec.Containers[0].Resources.Requests[name]
		sum += quantity.MilliValue()
	}
	return sum
}

// op is a line of a replay log.
type op struct {
	Op     string         `json:"op"`
	Count  int            `json:"count,omitempty"`
	Object runtime.Object `json:"object"`
}

// writeLog writes the load of a shape as a replay log: the cluster, and then the pods, one
// attempt each. Equal pods become one line.
func writeLog(path string, s shape, o options) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	write := func(op op) error {
		if err := setKind(op.Object); err != nil {
			return err
		}
		return encoder.Encode(op)
	}
	if s.devices != nil {
		err = s.writeAllocated(o, write)
	} else {
		err = s.writeOps(o, write)
	}
	if err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Close()
}

func (s shape) writeOps(o options, write func(op) error) error {
	for op := range s.ops(o) {
		if err := write(op); err != nil {
			return err
		}
	}
	return nil
}

// ops are the lines, in order; with devices those before the first pod to schedule.
func (s shape) ops(o options) func(yield func(op) bool) {
	return func(yield func(op) bool) {
		ok := true
		o := s.withOverrides(o)
		pods := s.pods(o, "drain")
		put := func(op op) { ok = ok && yield(op) }
		put(op{Op: "apply", Object: &corev1.Namespace{ObjectMeta: metaNamed(namespace)}})
		for i := range o.nodes {
			put(op{Op: "apply", Object: s.node(i, o)})
		}
		for _, object := range s.extras() {
			put(op{Op: "apply", Object: object})
		}
		for i := range o.existing {
			put(op{Op: "apply", Object: s.existingPod(i, o.nodes)})
		}
		if s.devices != nil {
			for _, object := range s.devices.objects(o.nodes) {
				put(op{Op: "apply", Object: object})
			}
			return
		}
		if s.interleaved {
			for i := range pods {
				put(op{Op: "schedule", Object: s.pendingPod(i)})
			}
			return
		}
		one := s.pendingPod(0)
		one.Name, one.UID = "pod", "pod"
		put(op{Op: "schedule-batch", Count: pods, Object: one})
	}
}

// node is the i-th node in the log.
func (s shape) node(i int, o options) *corev1.Node {
	return fixture.Node(nodeName(i)).Capacity("cpu", nodeCPU, "memory", nodeMemory).Zone(zoneName(i % s.zoneCount(o))).Obj()
}

// setKind sets the kind, which typed objects lack.
func setKind(object runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return err
}
