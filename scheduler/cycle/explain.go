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

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// mostNearest is how many near misses are told.
	maxClosestNodes = 3
	// mostAsked bounds the nodes about which every plugin is asked.
	maxEvaluatedNodes = 12
)

// nearNode is a node that refused the pod.
type closeNode struct {
	node fwk.NodeInfo
	// excluded is how many plugins refuse the node for a reason that stays, see
	// framework.Excluder.
	permanent int
	// things is how much is missing, as far as it is known. short adds up, for
	// each resource that is short, which part of what the pod asks for is not
	// there.
	numMissing      int
	missingFraction float64
	missing         []decision.Missing
}

func compareCloseness(a, b closeNode) int {
	return cmp.Or(cmp.Compare(a.permanent, b.permanent), cmp.Compare(a.numMissing, b.numMissing), cmp.Compare(a.missingFraction, b.missingFraction))
}

// Nearest returns the nodes that least keeps the pod from of those whose
// refusal is in unfit, and all that is missing there: every plugin is asked, not
// only as far as the first that refuses. It is for the attempt that ended in
// unfit: the snapshot has not moved. word words a plugin's reason.
//
// A node that the pod excludes, by its node selector for instance, is returned
// only where the pod excludes all nodes, and then only those that the fewest
// plugins exclude: no waiting brings the pod there.
//
// Not all nodes are asked in full, but those with the most room of each plugin's
// that refused: what is called nearest is near, and what it is said to miss is
// all it misses; but one that misses as much or less may be elsewhere.
func ClosestNodes(ctx context.Context, r Request, unfit *framework.FitError, word func(plugin, reason string) string) (nearest []decision.ClosestNode) {
	defer func() {
		if broken := recover(); broken != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("%v", broken), "A plugin panicked; nothing is said of what is nearest", "pod", klog.KObj(r.Pod))
			nearest = nil
		}
	}()
	if found, known := r.EquivalenceCache.cachedClosestNodes(r); known {
		return found
	}
	var asked []closeNode
	for _, n := range shortlist(r, unfit) {
		missing, ok := r.Framework.AllRejections(ctx, r.State, r.Pod, n.node)
		if status := unfit.Diagnosis.NodeToStatus.Get(n.node.Node().Name); ok && framework.IsExtender(status.Plugin()) {
			missing = append(missing, framework.NodeRejection{Status: status}) // what it said: it is not asked again
		}
		if !ok || len(missing) == 0 {
			continue
		}
		n.missingFraction = 0
		for _, m := range missing {
			n.missingFraction += missingFraction(m.InsufficientResources)
			n.missing = append(n.missing, missingFrom(m, word)...)
		}
		n.missing = distinct(n.missing)
		n.numMissing = len(n.missing)
		n.missing = decision.Summarize(n.missing, func(rest []decision.Missing) decision.Missing {
			return decision.Missing{Reason: fmt.Sprintf("%d more things", len(rest))}
		})
		asked = append(asked, n)
	}
	slices.SortStableFunc(asked, compareCloseness)
	for _, n := range asked[:min(len(asked), maxClosestNodes)] {
		nearest = append(nearest, decision.ClosestNode{Node: n.node.Node().Name, Missing: n.missing})
	}
	r.EquivalenceCache.cacheClosestNodes(r, nearest)
	return nearest
}

// shortlist returns the nodes to ask in full: of those that each plugin refused
// and that the fewest plugins exclude, the ones with the most room, in turn.
func shortlist(r Request, unfit *framework.FitError) []closeNode {
	byPlugin, least := map[string][]closeNode{}, math.MaxInt
	var list []framework.InsufficientResource
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		node := r.Snapshot.Node(name)
		if node == nil || !status.IsRejected() {
			return
		}
		excluded := r.Framework.CountPermanentRejections(r.State, r.Pod, node, status.Plugin())
		if excluded > least && !fault.ExcludedNodesNear {
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
			if rank < len(nodes) && len(all) < maxEvaluatedNodes && (nodes[rank].permanent == least || fault.ExcludedNodesNear) {
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

// missingOf is what one plugin has against a node, in the words of the decision.
func missingFrom(m framework.NodeRejection, word func(plugin, reason string) string) (all []decision.Missing) {
	for _, s := range m.InsufficientResources {
		all = append(all, decision.Missing{
			Resource: string(s.Resource), Requested: formatQuantity(s.Resource, s.Requested), Free: formatQuantity(s.Resource, s.Free),
		})
	}
	if len(m.InsufficientResources) == 0 {
		reasons := slices.Clone(m.Reasons())
		for i := range reasons {
			reasons[i] = word(m.Plugin(), reasons[i])
		}
		all = append(all, decision.Missing{Plugin: m.Plugin(), Reason: strings.Join(distinct(reasons), ", ")})
	}
	return all
}

// distinct returns all without what is there twice, in its order: reasons that
// named different pods may read alike once the names are left out.
func distinct[T comparable](all []T) (once []T) {
	for _, one := range all {
		if !slices.Contains(once, one) || fault.LinesTwice {
			once = append(once, one)
		}
	}
	return once
}

// quantity writes an amount as a pod's requests are written.
func formatQuantity(name v1.ResourceName, amount int64) string {
	switch {
	case name == v1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return resource.NewQuantity(amount, resource.DecimalSI).String()
}

// nearestKnown is what was nearest to the pods of a class.
type cachedClosestNodes struct {
	class   *podClass
	changes uint64
	nodes   []decision.ClosestNode
}

// sameNearest says whether what is nearest to the pod is so to all of its class
// as long as the snapshot stands still: nobody is asked who is opaque, and room
// is promised to nobody.
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

func (m *EquivalenceCache) cachedClosestNodes(r Request) ([]decision.ClosestNode, bool) {
	c, ok := m.closestNodesClass(r)
	if !ok || m.closest.class != c || m.closest.changes != r.Snapshot.Changes() && !fault.NearestOutlivesSnapshot {
		return nil, false
	}
	return slices.Clone(m.closest.nodes), true
}

func (m *EquivalenceCache) cacheClosestNodes(r Request, nearest []decision.ClosestNode) {
	if c, ok := m.closestNodesClass(r); ok {
		m.closest = cachedClosestNodes{c, r.Snapshot.Changes(), slices.Clone(nearest)}
	}
}

// Rejections groups what was said about all nodes by plugin, code and reason,
// those of most nodes first, and says which plugins keep the pod from how many
// nodes. word words a plugin's reason. Nodes that nobody asked count for the
// plugins that ruled them out. What is too much for an explanation is summed up,
// the rarest first.
func Rejections(unfit *framework.FitError, word func(plugin, reason string) string) (rejections []decision.Rejection, blockedBy string) {
	type key struct{ plugin, code, reason string }
	places, blame := map[key]int{}, map[string]int32{}
	for _, v := range unfit.StatusCounts() {
		plugin := v.Plugin()
		if plugin == "" && v.ExampleNode == "" {
			plugin = strings.Join(unfit.Diagnosis.NarrowedBy, " and ")
		}
		blame[plugin] += int32(v.Nodes)
		reasons := slices.Clone(v.Reasons())
		for i := range reasons {
			reasons[i] = word(plugin, reasons[i])
		}
		for _, reason := range distinct(reasons) { // a node counts once for a reason
			k := key{plugin, v.Code().String(), reason}
			at, known := places[k]
			if !known {
				at = len(rejections)
				places[k] = at
				rejections = append(rejections, decision.Rejection{Plugin: plugin, Code: k.code, Reason: k.reason, ExampleNode: v.ExampleNode})
			}
			rejections[at].Nodes += int32(v.Nodes)
		}
	}
	slices.SortFunc(rejections, func(a, b decision.Rejection) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return decision.Summarize(rejections, summarizeRest), formatBlockedBy(blame)
}

// rarest sums up reasons, those of most nodes first. A node may have several of
// them: they hold for as many as the first at least.
func summarizeRest(rest []decision.Rejection) decision.Rejection {
	return decision.Rejection{Code: rest[0].Code, Reason: fmt.Sprintf("%d more reasons", len(rest)), Nodes: rest[0].Nodes}
}

// blamed names the plugins, those of most nodes first.
func formatBlockedBy(blame map[string]int32) string {
	delete(blame, "")
	var texts []string
	names := make([]string, 0, len(blame))
	for name := range blame {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(blame[b], blame[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		texts = append(texts, fmt.Sprint(name, " ", blame[name]))
	}
	return strings.Join(texts, ", ")
}
