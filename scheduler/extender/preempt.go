package extender

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ProcessPreemption asks which of the nodes may be cleared for the pod, and of
// whom. An answer may leave nodes out and choose other victims; but only nodes
// that were asked about, and pods that are there and less important than the
// pod: an extender's word is no reason to evict anybody else. nodeInfos may not
// be nil.
func (c *Client) ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims, nodeInfos fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	if !c.SupportsPreemption() {
		return nil, errors.New("the extender has no verb to preempt")
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToVictims: victims}
	if c.config.NodeCacheCapable {
		args.NodeNameToVictims, args.NodeNameToMetaVictims = nil, metaVictims(victims)
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := c.call("preempt", c.config.Preempt, args, &result); err != nil {
		return nil, err
	}
	chosen := make(map[string]*extenderv1.Victims, len(result.NodeNameToMetaVictims))
	for name, meta := range result.NodeNameToMetaVictims {
		if _, asked := victims[name]; !asked {
			return nil, c.answerError("preempt", False, "the answer names a node that was not asked about")
		}
		if meta == nil {
			meta = &extenderv1.MetaVictims{}
		}
		node, err := nodeInfos.Get(name)
		if err != nil {
			return nil, err
		}
		found, told := findVictims(pod, meta, node)
		if told != "" {
			return nil, c.answerError("preempt", False, told)
		}
		chosen[name] = &extenderv1.Victims{Pods: found, NumPDBViolations: meta.NumPDBViolations}
	}
	return chosen, nil
}

// find returns the victims on a node; or what is wrong with them.
func findVictims(pod *v1.Pod, meta *extenderv1.MetaVictims, node fwk.NodeInfo) (found []*v1.Pod, told string) {
	there := map[string]*v1.Pod{}
	for _, p := range node.GetPods() {
		there[string(p.GetPod().UID)] = p.GetPod()
	}
	for _, m := range meta.Pods {
		if m == nil || there[m.UID] == nil {
			return nil, "the answer names a victim that is not on the node, or one twice"
		}
		victim := there[m.UID]
		delete(there, m.UID)
		if corev1.PodPriority(victim) >= corev1.PodPriority(pod) {
			return nil, "the answer names a victim that is as important as the pod, or more"
		}
		found = append(found, victim)
	}
	return found, ""
}

func metaVictims(victims map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	all := make(map[string]*extenderv1.MetaVictims, len(victims))
	for node, v := range victims {
		meta := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: v.NumPDBViolations}
		for _, pod := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		all[node] = meta
	}
	return all
}
