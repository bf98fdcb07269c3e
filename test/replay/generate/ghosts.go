package generate

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// kube-scheduler miscounts the claims of pods on nodes that are not there: those
// of a node that goes before its pods are counted out with it and with each of
// them, and a pod whose node is not there yet counts until nodes are listed anew.
// A claim in use is then taken to be free, or the reverse, and a count below zero
// changes the order of the nodes. Berth counts right (docs/parity.md), so
// histories that are compared have no such pods.

// claims says whether the pod uses claims that somebody counts.
func claims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// someNodeFor is someNode for a pod that runs there.
func (g *Generator) someNodeFor(pod *v1.Pod) string {
	switch {
	case !claims(pod):
		return g.someNode()
	case len(g.names) == 0:
		return ""
	}
	return pick(g.dice, g.names)
}

// nodeEmpties is nodeGoes once the pods with claims are deleted.
func (g *Generator) nodeEmpties() (log.Op, bool) {
	op, ok := g.nodeGoes()
	if !ok {
		return op, false
	}
	for _, list := range []*[]*v1.Pod{&g.placed, &g.assumed} {
		*list = slices.DeleteFunc(*list, func(pod *v1.Pod) bool {
			first := pod.Spec.NodeName == op.Object.GetName() && claims(pod)
			if first {
				g.ahead = append(g.ahead, log.Op{Kind: log.Delete, Object: pod.DeepCopy()})
			}
			return first
		})
	}
	return op, true
}
