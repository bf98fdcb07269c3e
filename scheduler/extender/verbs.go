package extender

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filter asks the extender which of nodes the pod fits on. fit is a subset of nodes, in
// the order of the answer. Every other node has a reason; a node without one in the
// answer is unresolvable, because nothing is known that would change the answer.
func (c *Client) Filter(pod *v1.Pod, nodes []fwk.NodeInfo) (fit []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	if !c.IsFilter() {
		return nodes, nil, nil, nil
	}
	var result extenderv1.ExtenderFilterResult
	if err := c.call("filter", c.config.Filter, c.requestArgs(pod, nodes), &result); err != nil {
		return nil, nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, nil, c.answerError("filter", Failed, sanitizeMessage(result.Error))
	}
	fit, err = c.feasibleNodes(&result, nodes)
	if err != nil {
		return nil, nil, nil, err
	}
	failed, unresolvable = c.failedNodes(&result, nodes, fit)
	return fit, failed, unresolvable, nil
}

// requestArgs returns the request body of filter and prioritize.
func (c *Client) requestArgs(pod *v1.Pod, nodes []fwk.NodeInfo) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Node().Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &v1.NodeList{Items: make([]v1.Node, len(nodes))}
	for i, n := range nodes {
		args.Nodes.Items[i] = *n.Node()
	}
	return args
}

// feasibleNodes returns the nodes that an answer says fit, in its order.
func (c *Client) feasibleNodes(result *extenderv1.ExtenderFilterResult, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, error) {
	names := c.answerNames(result)
	known := make(map[string]fwk.NodeInfo, len(nodes))
	for _, n := range nodes {
		known[n.Node().Name] = n
	}
	fit := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range names {
		node, ok := known[name]
		switch {
		case !ok:
			return nil, c.answerError("filter", False, "the answer names a node that is not in the request, or one twice")
		case isFailedNode(result, name):
			return nil, c.answerError("filter", False, "the answer says that a node fits and that it does not")
		}
		delete(known, name)
		fit = append(fit, node)
	}
	return fit, nil
}

// answerNames returns the names of the nodes that an answer says fit. As kube-scheduler
// does, it reads one of the two fields and ignores the other, which some extenders fill
// with something else: NodeNames of an extender with a node cache, where it is set,
// otherwise Nodes. Where that is not set either, no node fits.
func (c *Client) answerNames(result *extenderv1.ExtenderFilterResult) []string {
	if c.config.NodeCacheCapable && result.NodeNames != nil {
		return *result.NodeNames
	}
	if result.Nodes == nil {
		return nil
	}
	names := make([]string, len(result.Nodes.Items))
	for i := range result.Nodes.Items {
		names[i] = result.Nodes.Items[i].Name
	}
	return names
}

func isFailedNode(result *extenderv1.ExtenderFilterResult, name string) bool {
	_, failed := result.FailedNodes[name]
	_, unresolvable := result.FailedAndUnresolvableNodes[name]
	return failed || unresolvable
}

// failedNodes returns the reason of each node that does not fit. It ignores reasons of
// nodes that were not in the request.
func (c *Client) failedNodes(result *extenderv1.ExtenderFilterResult, nodes, fit []fwk.NodeInfo) (failed, unresolvable extenderv1.FailedNodesMap) {
	failed, unresolvable = extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}
	chosen := make(map[string]bool, len(fit))
	for _, n := range fit {
		chosen[n.Node().Name] = true
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		name := n.Node().Name
		if chosen[name] {
			continue
		}
		// Unresolvable takes precedence when a node has both kinds of reasons.
		if why, ok := result.FailedAndUnresolvableNodes[name]; ok {
			unresolvable[name] = c.boundedReason(why, seen)
		} else if why, ok := result.FailedNodes[name]; ok {
			failed[name] = c.boundedReason(why, seen)
		} else {
			unresolvable[name] = fmt.Sprintf("node(s) were left out by extender %q", c.config.Name)
		}
	}
	return failed, unresolvable
}

// boundedReason returns a reason for the pod's message, which counts nodes by reason.
// It limits the number of different reasons: one per node would fill the message.
func (c *Client) boundedReason(why string, seen map[string]bool) string {
	if why = sanitizeMessage(why); why == "" {
		why = fmt.Sprintf("node(s) were refused by extender %q", c.config.Name)
	}
	if !seen[why] && len(seen) >= maxReasons {
		return fmt.Sprintf("node(s) were refused by extender %q for other reasons", c.config.Name)
	}
	seen[why] = true
	return why
}

// answerError counts and returns an error that only the decoded answer shows.
func (c *Client) answerError(verb string, kind Kind, message string) error {
	c.count(verb, kind)
	return c.newError(verb, kind, message, nil)
}

// Prioritize asks the extender to score nodes for the pod, from 0 to 10, and returns
// the scores with their weight. A node that the answer does not name has no score. A
// score of a node that is not in nodes is ignored, as in kube-scheduler.
func (c *Client) Prioritize(pod *v1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	if !c.IsPrioritizer() {
		return &extenderv1.HostPriorityList{}, 0, nil
	}
	var list extenderv1.HostPriorityList
	if err := c.call("prioritize", c.config.Prioritize, c.requestArgs(pod, nodes), &list); err != nil {
		return nil, 0, err
	}
	hasScore := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		hasScore[n.Node().Name] = false
	}
	scores := make(extenderv1.HostPriorityList, 0, len(nodes))
	for _, host := range list {
		twice, known := hasScore[host.Host]
		if !known {
			continue
		}
		if twice {
			return nil, 0, c.answerError("prioritize", False, "the answer scores a node twice")
		}
		if host.Score < extenderv1.MinExtenderPriority || host.Score > extenderv1.MaxExtenderPriority {
			return nil, 0, c.answerError("prioritize", False, fmt.Sprintf("a score is %d, want %d to %d", host.Score, extenderv1.MinExtenderPriority, extenderv1.MaxExtenderPriority))
		}
		hasScore[host.Host] = true
		scores = append(scores, host)
	}
	return &scores, c.config.Weight, nil
}

// Scale is a factor of an extender's scores, besides the weight, so that its highest
// score equals that of a plugin.
const Scale = fwk.MaxScore / extenderv1.MaxExtenderPriority

// Bind asks the extender to bind a pod. After an error the pod may be bound all the
// same.
func (c *Client) Bind(binding *v1.Binding) error {
	if !c.IsBinder() {
		return errors.New("the extender has no verb to bind")
	}
	var result extenderv1.ExtenderBindingResult
	if err := c.call("bind", c.config.Bind, &extenderv1.ExtenderBindingArgs{
		PodName: binding.Name, PodNamespace: binding.Namespace, PodUID: binding.UID, Node: binding.Target.Name,
	}, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return c.answerError("bind", Failed, sanitizeMessage(result.Error))
	}
	return nil
}

// ProcessPreemption asks the extender which of the candidate nodes to keep, and which
// victims on them. An answer may drop nodes and name other victims, but only pods on
// that node with a lower priority than the pod. nodeInfos must not be nil.
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
		if _, ok := victims[name]; !ok {
			return nil, c.answerError("preempt", False, "the answer names a node that is not in the request")
		}
		if meta == nil {
			meta = &extenderv1.MetaVictims{}
		}
		node, err := nodeInfos.Get(name)
		if err != nil {
			return nil, err
		}
		found, message := findVictims(pod, meta, node)
		if message != "" {
			return nil, c.answerError("preempt", False, message)
		}
		chosen[name] = &extenderv1.Victims{Pods: found, NumPDBViolations: meta.NumPDBViolations}
	}
	return chosen, nil
}

// findVictims returns the victims on a node; message is not empty when they are
// invalid.
func findVictims(pod *v1.Pod, meta *extenderv1.MetaVictims, node fwk.NodeInfo) (found []*v1.Pod, message string) {
	onNode := map[string]*v1.Pod{}
	for _, p := range node.GetPods() {
		onNode[string(p.GetPod().UID)] = p.GetPod()
	}
	for _, m := range meta.Pods {
		if m == nil || onNode[m.UID] == nil {
			return nil, "the answer names a victim that is not on the node, or one twice"
		}
		victim := onNode[m.UID]
		delete(onNode, m.UID)
		if corev1.PodPriority(victim) >= corev1.PodPriority(pod) {
			return nil, "the answer names a victim whose priority is not lower than the pod's"
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
