package generate

import "github.com/berthdev/berth/scheduler/sandbox/log"

// nominate promises a new pod room on a node.
func (g *Generator) nominate() (log.Op, bool) {
	pod := g.newPod()
	if pod.Status.NominatedNodeName = g.someNode(); pod.Status.NominatedNodeName == "" {
		return log.Op{}, false
	}
	g.nominated = append(g.nominated, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// settleNomination schedules a nominated pod, deletes it, promises it another
// room or none.
func (g *Generator) settleNomination() (log.Op, bool) {
	pod, ok := take(g, &g.nominated)
	if !ok {
		return log.Op{}, false
	}
	pod = pod.DeepCopy()
	switch g.IntN(8) {
	case 0:
		return log.Op{Kind: log.Delete, Object: pod}, true
	case 1:
		pod.Status.NominatedNodeName = g.someNode()
		g.nominated = append(g.nominated, pod)
		return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
	case 2:
		if pod.Spec.NodeName = g.someNodeFor(pod); pod.Spec.NodeName != "" {
			g.placed = append(g.placed, pod)
			return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
		}
	}
	return g.attempt(pod), true
}
