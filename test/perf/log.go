package main

import (
	"bufio"
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berthdev/berth/test/support/fixture"
)

// op is a line of a replay log.
type op struct {
	Op     string         `json:"op"`
	Count  int            `json:"count,omitempty"`
	Object runtime.Object `json:"object"`
}

// writeLog writes the load of a shape as a replay log: the cluster, and then
// the pods, one attempt each. Runs of pods that differ in nothing but the name
// become one line.
func writeLog(path string, s shape, o options) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	for op := range s.ops(o) {
		if err := setKind(op.Object); err != nil {
			return err
		}
		if err := encoder.Encode(op); err != nil {
			return err
		}
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// ops are the lines, in order.
func (s shape) ops(o options) func(yield func(op) bool) {
	return func(yield func(op) bool) {
		ok := true
		o := s.settled(o)
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
			put(op{Op: "apply", Object: s.runs(i, o.nodes)})
		}
		if s.interleaved {
			for i := range pods {
				put(op{Op: "schedule", Object: s.waits(i)})
			}
			return
		}
		one := s.waits(0)
		one.Name, one.UID = "pod", "pod"
		put(op{Op: "schedule-batch", Count: pods, Object: one})
	}
}

// node is the i-th node as the log has it.
func (s shape) node(i int, o options) *corev1.Node {
	return fixture.Node(nodeName(i)).Capacity("cpu", nodeCPU, "memory", nodeMemory).Zone(zoneName(i % s.zoned(o))).Obj()
}

// setKind writes in the kind, which typed objects leave out.
func setKind(object runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return err
}
