package extender

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// Prioritize asks how good each node is for the pod, from 0 to 10, and returns
// the weight of that. Nodes that the answer does not name have no score.
func (c *Client) Prioritize(pod *v1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	if !c.IsPrioritizer() {
		return &extenderv1.HostPriorityList{}, 0, nil
	}
	var list extenderv1.HostPriorityList
	if err := c.call("prioritize", c.config.Prioritize, c.requestArgs(pod, nodes), &list); err != nil {
		return nil, 0, err
	}
	left := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		left[n.Node().Name] = true
	}
	for _, host := range list {
		if !left[host.Host] {
			return nil, 0, c.answerError("prioritize", False, "the answer scores a node that was not asked about, or one twice")
		}
		delete(left, host.Host)
		if (host.Score < extenderv1.MinExtenderPriority || host.Score > extenderv1.MaxExtenderPriority) && !fault.ExtenderOverscores {
			return nil, 0, c.answerError("prioritize", False, fmt.Sprintf("a score is %d, want %d to %d", host.Score, extenderv1.MinExtenderPriority, extenderv1.MaxExtenderPriority))
		}
	}
	return &list, c.config.Weight, nil
}

// Scale is what a score is multiplied with besides its weight, so that an
// extender's best is as good as a plugin's.
const Scale = fwk.MaxScore / extenderv1.MaxExtenderPriority
