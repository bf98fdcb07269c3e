package cycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// maxClosestNodes is the number of closest nodes in an explanation.
	maxClosestNodes = 3
	// maxEvaluatedNodes bounds the nodes for which every plugin is called.
	maxEvaluatedNodes = 12
)

// closeNode is a node that rejected the pod.
type closeNode struct {
	node fwk.NodeInfo
	// permanent is the number of plugins that reject the node permanently, see
	// framework.PermanentRejecter.
	permanent int
	// numMissing is the number of known missing things. missingFraction is the
	// sum, over the missing resources, of the missing fraction of the pod's
	// request.
	numMissing      int
	missingFraction float64
	missing         []v1alpha1.Missing
}

func compareCloseness(a, b closeNode) int {
	return cmp.Or(cmp.Compare(a.permanent, b.permanent), cmp.Compare(a.numMissing, b.numMissing), cmp.Compare(a.missingFraction, b.missingFraction))
}

// ClosestNodes returns the nodes rejected in fitErr to which least is missing
// for the pod, with everything missing there: it runs every plugin, not only
// up to the first that rejects. The snapshot and r.State must be those of the
// attempt that ended in fitErr. Reasons pass through redact.
//
// A node that a plugin rejects permanently, for example because of a node
// selector, is returned only if all nodes are, and then only those that the
// fewest plugins reject permanently: waiting does not help there.
//
// Only the shortlist is evaluated completely. What is reported as missing on a
// node is everything missing there, but some other node may lack as much or
// less.
func ClosestNodes(ctx context.Context, r Request, fitErr *framework.FitError, redact func(plugin, reason string) string) (closest []v1alpha1.ClosestNode) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("%v", panicValue), "A plugin panicked; no closest nodes are reported", "pod", klog.KObj(r.Pod))
			closest = nil
		}
	}()
	if found, known := r.EquivalenceCache.cachedClosestNodes(r); known {
		return found
	}
	var evaluated []closeNode
	for _, n := range shortlist(r, fitErr) {
		missing, ok := r.Framework.AllRejections(ctx, r.State, r.Pod, n.node)
		if status := fitErr.Diagnosis.NodeToStatus.Get(n.node.Node().Name); ok && framework.IsExtender(status.Plugin()) {
			missing = append(missing, framework.NodeRejection{Status: status}) // the extender is not called again
		}
		if framework.CheckAbandoned(r.State) != nil {
			return nil
		}
		if !ok || len(missing) == 0 {
			continue
		}
		n.missingFraction = 0
		for _, m := range missing {
			n.missingFraction += missingFraction(m.InsufficientResources)
			n.missing = append(n.missing, missingFrom(m, redact)...)
		}
		n.missing = distinct(n.missing)
		n.numMissing = len(n.missing)
		n.missing = decision.Summarize(n.missing, func(rest []v1alpha1.Missing) v1alpha1.Missing {
			return v1alpha1.Missing{Reason: fmt.Sprintf("%d more things", len(rest))}
		})
		evaluated = append(evaluated, n)
	}
	slices.SortStableFunc(evaluated, compareCloseness)
	for _, n := range evaluated[:min(len(evaluated), maxClosestNodes)] {
		closest = append(closest, v1alpha1.ClosestNode{Node: n.node.Node().Name, Missing: n.missing})
	}
	r.EquivalenceCache.cacheClosestNodes(r, closest)
	return closest
}

// shortlist returns the nodes to evaluate completely. Of the nodes that the
// fewest plugins reject permanently, it takes, for each plugin that rejected
// nodes, those that lack least, in turn.
func shortlist(r Request, fitErr *framework.FitError) []closeNode {
	byPlugin, least := map[string][]closeNode{}, math.MaxInt
	var list []framework.InsufficientResource
	fitErr.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		node := r.Snapshot.Node(name)
		if node == nil || !status.IsRejected() {
			return
		}
		excluded := r.Framework.CountPermanentRejections(r.State, r.Pod, node, status.Plugin())
		if excluded > least {
			return
		}
		least = min(least, excluded)
		list = r.Framework.InsufficientResources(list[:0], r.State, r.Pod, node)
		n, known := closeNode{node: node, permanent: excluded, numMissing: len(list), missingFraction: missingFraction(list)}, byPlugin[status.Plugin()]
		if len(known) == maxClosestNodes && compareCloseness(known[maxClosestNodes-1], n) <= 0 {
			return
		}
		known = append(known, n)
		slices.SortStableFunc(known, compareCloseness)
		byPlugin[status.Plugin()] = known[:min(len(known), maxClosestNodes)]
	})
	var all []closeNode
	for rank := range maxClosestNodes {
		for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
			nodes := byPlugin[plugin]
			if rank < len(nodes) && len(all) < maxEvaluatedNodes && nodes[rank].permanent == least {
				all = append(all, nodes[rank])
			}
		}
	}
	return all
}

func missingFraction(list []framework.InsufficientResource) (sum float64) {
	for _, s := range list {
		sum += float64(s.Requested-s.Free) / float64(s.Requested)
	}
	return sum
}

// missingFrom converts a rejection to the API's form. Reasons pass through redact.
func missingFrom(m framework.NodeRejection, redact func(plugin, reason string) string) (all []v1alpha1.Missing) {
	for _, s := range m.InsufficientResources {
		all = append(all, v1alpha1.Missing{
			Resource: string(s.Resource), DeviceRequest: s.DeviceRequest, Requested: formatQuantity(s.Resource, s.Requested), Free: formatQuantity(s.Resource, s.Free),
		})
	}
	if len(m.InsufficientResources) == 0 {
		reasons := slices.Clone(m.Reasons())
		for i := range reasons {
			reasons[i] = redact(m.Plugin(), reasons[i])
		}
		all = append(all, v1alpha1.Missing{Plugin: m.Plugin(), Reason: strings.Join(distinct(reasons), ", ")})
	}
	return all
}

// distinct returns all without duplicates in the same order. Reasons that name
// different pods may be equal after redaction.
func distinct[T comparable](all []T) (once []T) {
	for _, one := range all {
		if !slices.Contains(once, one) {
			once = append(once, one)
		}
	}
	return once
}

// formatQuantity formats an amount as in a pod's requests.
func formatQuantity(name v1.ResourceName, amount int64) string {
	switch {
	case name == v1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return resource.NewQuantity(amount, resource.DecimalSI).String()
}

// cachedClosestNodes are the closest nodes of the class evaluated last.
type cachedClosestNodes struct {
	class   *podClass
	changes uint64
	nodes   []v1alpha1.ClosestNode
}

// closestNodesClass returns the class of the pod if its closest nodes are those
// of the whole class while the snapshot does not change: no plugin is opaque,
// no extender is interested, and no pod is nominated.
func (m *EquivalenceCache) closestNodesClass(r Request) (*podClass, bool) {
	if m == nil || r.Framework.IsOpaque(r.Pod, "") || r.Framework.HasInterestedExtender(r.Pod) {
		return nil, false
	}
	nominator, ok := r.Framework.Nominator.(interface{ NominatedNodes() []string })
	if !ok || len(nominator.NominatedNodes()) > 0 {
		return nil, false
	}
	c := m.class(r.Pod)
	return c, c != nil
}

func (m *EquivalenceCache) cachedClosestNodes(r Request) ([]v1alpha1.ClosestNode, bool) {
	c, ok := m.closestNodesClass(r)
	if !ok || m.closest.class != c || m.closest.changes != r.Snapshot.Changes() {
		return nil, false
	}
	return slices.Clone(m.closest.nodes), true
}

func (m *EquivalenceCache) cacheClosestNodes(r Request, closest []v1alpha1.ClosestNode) {
	if c, ok := m.closestNodesClass(r); ok {
		m.closest = cachedClosestNodes{c, r.Snapshot.Changes(), slices.Clone(closest)}
	}
}

// Rejections groups the statuses of all nodes by plugin, code and reason,
// ordered by number of nodes, and returns in blockedBy the number of nodes per
// plugin. Reasons pass through redact. Nodes that were not evaluated count
// for the plugins that excluded them. If there are too many groups, the
// smallest ones are summarized in one.
func Rejections(fitErr *framework.FitError, redact func(plugin, reason string) string) (rejections []v1alpha1.Rejection, blockedBy string) {
	type key struct{ plugin, code, reason string }
	indexes, nodesByPlugin := map[key]int{}, map[string]int32{}
	for _, v := range fitErr.StatusCounts() {
		plugin := v.Plugin()
		if plugin == "" && v.ExampleNode == "" {
			plugin = strings.Join(fitErr.Diagnosis.NarrowedBy, " and ")
		}
		nodesByPlugin[plugin] += int32(v.Nodes)
		reasons := slices.Clone(v.Reasons())
		for i := range reasons {
			reasons[i] = redact(plugin, reasons[i])
		}
		for _, reason := range distinct(reasons) { // count each node once per reason
			k := key{plugin, v.Code().String(), reason}
			at, known := indexes[k]
			if !known {
				at = len(rejections)
				indexes[k] = at
				rejections = append(rejections, v1alpha1.Rejection{Plugin: plugin, Code: k.code, Reason: k.reason, ExampleNode: v.ExampleNode})
			}
			rejections[at].Nodes += int32(v.Nodes)
		}
	}
	slices.SortFunc(rejections, func(a, b v1alpha1.Rejection) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return decision.Summarize(rejections, summarizeRest), formatBlockedBy(nodesByPlugin)
}

// summarizeRest summarizes reasons, which are ordered by number of nodes. A
// node may have several of them, so that the first number is a lower bound.
func summarizeRest(rest []v1alpha1.Rejection) v1alpha1.Rejection {
	return v1alpha1.Rejection{Code: rest[0].Code, Reason: fmt.Sprintf("%d more reasons", len(rest)), Nodes: rest[0].Nodes}
}

// formatBlockedBy lists the plugins by descending number of nodes.
func formatBlockedBy(nodesByPlugin map[string]int32) string {
	delete(nodesByPlugin, "")
	var texts []string
	names := make([]string, 0, len(nodesByPlugin))
	for name := range nodesByPlugin {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(nodesByPlugin[b], nodesByPlugin[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		texts = append(texts, fmt.Sprint(name, " ", nodesByPlugin[name]))
	}
	return strings.Join(texts, ", ")
}
