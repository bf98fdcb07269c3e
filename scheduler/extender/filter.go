package extender

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// Filter asks which of the nodes, in whose order they fit, may have the pod. The
// nodes that are returned are some of those that were given; a node among them
// has no reason, every other one has: as unresolvable where the extender gives
// none, since nobody knows what would change its mind.
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

// question is what filter and prioritize are asked.
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

// chosen returns the nodes that an answer names, in its order.
func (c *Client) feasibleNodes(result *extenderv1.ExtenderFilterResult, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, error) {
	names, err := answerNames(result)
	if err != nil {
		return nil, c.answerError("filter", False, err.Error())
	}
	known := make(map[string]fwk.NodeInfo, len(nodes))
	for _, n := range nodes {
		known[n.Node().Name] = n
	}
	fit := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range names {
		node, asked := known[name]
		switch {
		case !asked:
			return nil, c.answerError("filter", False, "the answer names a node that was not asked about, or one twice")
		case isFailedNode(result, name):
			return nil, c.answerError("filter", False, "the answer says of a node that it fits and that it does not")
		}
		delete(known, name)
		fit = append(fit, node)
	}
	return fit, nil
}

// named are the names of the nodes that an answer says fit: by name or in full,
// or both ways when they agree.
func answerNames(result *extenderv1.ExtenderFilterResult) ([]string, error) {
	var full []string
	if result.Nodes != nil {
		for i := range result.Nodes.Items {
			full = append(full, result.Nodes.Items[i].Name)
		}
	}
	switch {
	case result.NodeNames == nil && result.Nodes == nil && len(result.FailedNodes)+len(result.FailedAndUnresolvableNodes) == 0:
		return nil, errors.New("the answer names neither nodes that fit nor such that do not")
	case result.NodeNames == nil:
		return full, nil
	case result.Nodes != nil && !sameNames(full, *result.NodeNames):
		return nil, errors.New("the answer's Nodes and NodeNames are not the same nodes")
	}
	return *result.NodeNames, nil
}

func sameNames(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	seen := make(map[string]bool, len(a))
	for _, name := range a {
		seen[name] = true
	}
	for _, name := range b {
		if !seen[name] {
			return false
		}
	}
	return true
}

func isFailedNode(result *extenderv1.ExtenderFilterResult, name string) bool {
	_, failed := result.FailedNodes[name]
	_, unresolvable := result.FailedAndUnresolvableNodes[name]
	return failed || unresolvable
}

// reasons says of each node that is not chosen why not. What an answer says of
// nodes that were not asked about is not looked at.
func (c *Client) failedNodes(result *extenderv1.ExtenderFilterResult, nodes, fit []fwk.NodeInfo) (failed, unresolvable extenderv1.FailedNodesMap) {
	failed, unresolvable = extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}
	chosen := make(map[string]bool, len(fit))
	for _, n := range fit {
		chosen[n.Node().Name] = true
	}
	told := map[string]bool{}
	for _, n := range nodes {
		name := n.Node().Name
		if chosen[name] {
			continue
		}
		// What is unresolvable outranks the other, where a node is both.
		if why, ok := result.FailedAndUnresolvableNodes[name]; ok && !fault.ExtenderDoubted {
			unresolvable[name] = c.boundedReason(why, told)
		} else if why, ok := result.FailedNodes[name]; ok {
			failed[name] = c.boundedReason(why, told)
		} else {
			unresolvable[name] = fmt.Sprintf("node(s) were left out by extender %q", c.config.Name)
		}
	}
	return failed, unresolvable
}

// reason is what may be told of a reason: a pod's message counts nodes by
// reason, and one reason a node would fill it.
func (c *Client) boundedReason(why string, told map[string]bool) string {
	if why = sanitizeMessage(why); why == "" {
		why = fmt.Sprintf("node(s) were refused by extender %q", c.config.Name)
	}
	if !told[why] && len(told) >= maxReasons {
		return fmt.Sprintf("node(s) were refused by extender %q for other reasons", c.config.Name)
	}
	told[why] = true
	return why
}

// said is a failure that an answer shows, which the request did not.
func (c *Client) answerError(verb string, kind Kind, told string) error {
	c.count(verb, kind)
	return c.newError(verb, kind, told, nil)
}
