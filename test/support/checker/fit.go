package checker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// This file says whether a pod fits on a node. It is written from the documentation of
// Kubernetes, and shares no code with the scheduler or with kube-scheduler.

// The plugins whose checks are here.
const (
	pluginResources     = "NodeResourcesFit"
	pluginPorts         = "NodePorts"
	pluginUnschedulable = "NodeUnschedulable"
	pluginTaints        = "TaintToleration"
	pluginNodeAffinity  = "NodeAffinity"
	pluginPodAffinity   = "InterPodAffinity"
	pluginVolumes       = "VolumeBinding"
	pluginRestrictions  = "VolumeRestrictions"
	pluginDevices       = "DynamicResources"
)

// pluginSet has the plugins of a profile; nil where they are not known, and all are meant.
type pluginSet map[string]bool

func (p pluginSet) has(name string) bool { return p == nil || p[name] }

// placed is the nodes and the pods on nodes at some moment.
type placed struct {
	nodes map[string]*corev1.Node
	// pods are those that use resources.
	pods []*corev1.Pod
}

// misfit returns why a pod does not fit on a node beside the other pods of that node; "" where it
// fits. It does not check affinity to pods, volumes and devices.
func misfit(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod, enabled pluginSet) string {
	for _, check := range []struct {
		plugin string
		why    func() string
	}{
		{pluginResources, func() string { return lacksResources(pod, node, others) }},
		{pluginPorts, func() string { return portConflict(pod, others) }},
		{pluginUnschedulable, func() string { return isUnschedulable(pod, node) }},
		{pluginTaints, func() string { return untolerated(pod, node.Spec.Taints) }},
		{pluginNodeAffinity, func() string { return wrongNode(pod, node) }},
	} {
		if !enabled.has(check.plugin) {
			continue
		}
		if why := check.why(); why != "" {
			return why
		}
	}
	return ""
}

// requestsOf returns what a pod requests of its node: the larger of what its containers and what
// its init containers need at any time, where the pod itself does not say, and its overhead.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	running, sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(running, pod.Spec.Containers[i].Resources.Requests)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sidecars, c.Resources.Requests)
			raise(starting, sidecars)
			continue
		}
		during := maps.Clone(sidecars)
		add(during, c.Resources.Requests)
		raise(starting, during)
	}
	add(running, sidecars)
	raise(running, starting)
	if pod.Spec.Resources != nil {
		maps.Copy(running, pod.Spec.Resources.Requests)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		for _, m := range s.RequestMappings {
			delete(running, corev1.ResourceName(m.ResourceName)) // devices of its claim, not of the node
		}
	}
	add(running, pod.Spec.Overhead)
	running[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return running
}

// add adds each resource of one list to another.
func add(to, from corev1.ResourceList) {
	for name, quantity := range from {
		sum := to[name].DeepCopy()
		sum.Add(quantity)
		to[name] = sum
	}
}

// raise raises each resource of a list to that of another.
func raise(to, from corev1.ResourceList) {
	for name, quantity := range from {
		if has := to[name]; has.Cmp(quantity) < 0 {
			to[name] = quantity
		}
	}
}

// lacksResources names the first resource that a pod requests and of which the node has too
// little.
func lacksResources(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) string {
	asked, used := requestsOf(pod), corev1.ResourceList{}
	for _, other := range others {
		add(used, requestsOf(other))
	}
	add(used, asked)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		request, sum, has := asked[name], used[name], node.Status.Allocatable[name]
		if !request.IsZero() && sum.Cmp(has) > 0 {
			return fmt.Sprintf("%s of %s %s are requested", sum.String(), has.String(), name)
		}
	}
	return ""
}

// hostPort is a port of a node.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

func hostPorts(pod *corev1.Pod) (ports []hostPort) {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, sidecarsOf(pod)} {
		for i := range containers {
			for _, p := range containers[i].Ports {
				if p.HostPort <= 0 {
					continue
				}
				port := hostPort{p.HostIP, p.Protocol, p.HostPort}
				if port.ip == "" {
					port.ip = "0.0.0.0"
				}
				if port.protocol == "" {
					port.protocol = corev1.ProtocolTCP
				}
				ports = append(ports, port)
			}
		}
	}
	return ports
}

func sidecarsOf(pod *corev1.Pod) (all []corev1.Container) {
	for i := range pod.Spec.InitContainers {
		if p := pod.Spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			all = append(all, pod.Spec.InitContainers[i])
		}
	}
	return all
}

// portConflict names a port that another pod of the node has.
func portConflict(pod *corev1.Pod, others []*corev1.Pod) string {
	asked := hostPorts(pod)
	if len(asked) == 0 {
		return ""
	}
	for _, other := range others {
		for _, has := range hostPorts(other) {
			for _, wants := range asked {
				sameIP := has.ip == wants.ip || has.ip == "0.0.0.0" || wants.ip == "0.0.0.0"
				if has.port == wants.port && has.protocol == wants.protocol && sameIP {
					return fmt.Sprintf("%s/%s has port %d there", other.Namespace, other.Name, has.port)
				}
			}
		}
	}
	return ""
}

// isUnschedulable says that a node takes no pods.
func isUnschedulable(pod *corev1.Pod, node *corev1.Node) string {
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !tolerates(pod, taint) {
		return "it is unschedulable"
	}
	return ""
}

// untolerated names a taint that keeps a pod from a node.
func untolerated(pod *corev1.Pod, taints []corev1.Taint) string {
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return fmt.Sprintf("it has the taint %s=%s:%s", taint.Key, taint.Value, taint.Effect)
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			return t.Key != "" && t.Value == taint.Value
		}
		return true // an operator of a later version of Kubernetes
	})
}

// wrongNode says that a node is not one that a pod selects.
func wrongNode(pod *corev1.Pod, node *corev1.Node) string {
	for name, value := range pod.Spec.NodeSelector {
		if has, exists := node.Labels[name]; !exists || has != value {
			return fmt.Sprintf("it lacks the label %s=%s", name, value)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if !matchesNode(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node) {
			return "no term of the pod's node affinity matches it"
		}
	}
	return ""
}

// matchesNode reports whether one of the terms matches a node. A term without requirements
// matches none.
func matchesNode(selector *corev1.NodeSelector, node *corev1.Node) bool {
	return slices.ContainsFunc(selector.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			return false
		}
		for _, r := range term.MatchExpressions {
			value, exists := node.Labels[r.Key]
			if !matchesRequirement(r, value, exists) {
				return false
			}
		}
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || !matchesRequirement(r, node.Name, true) {
				return false
			}
		}
		return true
	})
}

func matchesRequirement(r corev1.NodeSelectorRequirement, value string, exists bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return exists && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !exists || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return exists
	case corev1.NodeSelectorOpDoesNotExist:
		return !exists
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !exists || len(r.Values) != 1 {
			return false
		}
		has, err := strconv.ParseInt(value, 10, 64)
		limit, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || err2 != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && has > limit || r.Operator == corev1.NodeSelectorOpLt && has < limit
	}
	return false
}

// repelled names a pod that must not be in one topology domain with this one: because of its own
// required anti-affinity, or of this pod's. Terms with a namespaceSelector are left out, since
// they depend on labels of namespaces.
func repelled(pod *corev1.Pod, node *corev1.Node, at placed) string {
	own := antiAffinityOf(pod)
	for _, other := range at.pods {
		where := at.nodes[other.Spec.NodeName]
		if other.UID == pod.UID || where == nil {
			continue
		}
		for _, term := range own {
			if sameDomain(node, where, term.TopologyKey) && selects(term, pod, other) {
				return fmt.Sprintf("%s/%s is there, from which its anti-affinity keeps it", other.Namespace, other.Name)
			}
		}
		for _, term := range antiAffinityOf(other) {
			if sameDomain(node, where, term.TopologyKey) && selects(term, other, pod) {
				return fmt.Sprintf("%s/%s is there, whose anti-affinity keeps it away", other.Namespace, other.Name)
			}
		}
	}
	return ""
}

func antiAffinityOf(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func sameDomain(a, b *corev1.Node, topology string) bool {
	value, has := a.Labels[topology]
	other, otherHas := b.Labels[topology]
	return has && otherHas && value == other
}

// selects reports whether a term of one pod selects another.
func selects(term corev1.PodAffinityTerm, of, other *corev1.Pod) bool {
	if term.NamespaceSelector != nil || len(term.MatchLabelKeys)+len(term.MismatchLabelKeys) > 0 {
		return false
	}
	namespaces := term.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{of.Namespace}
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && slices.Contains(namespaces, other.Namespace) && selector.Matches(labels.Set(other.Labels))
}
