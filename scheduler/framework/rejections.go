package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// Shortage is a resource of which a node has too little left for a pod. Amounts
// of cpu are in millicores, of memory and storage in bytes.
type InsufficientResource struct {
	Resource v1.ResourceName
	// Requested is what the pod asks for. Free is what the node has left, which
	// is negative where more was given away than there is.
	Requested, Free int64
}

// Measurer is a plugin that refuses nodes for amounts, and can say which.
type InsufficientResourceReporter interface {
	// Shortages appends to list, in the order of Filter's reasons, what node has
	// too little of for the pod whose attempt state is; nothing where Filter
	// refuses it for no amount.
	InsufficientResources(list []InsufficientResource, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) []InsufficientResource
}

// Missing is what one plugin has against a node.
type NodeRejection struct {
	*fwk.Status
	// Shortages are all of it, where it is a matter of amounts.
	InsufficientResources []InsufficientResource
}

// Missing asks every plugin of the Filter chain about a node, not only as far as
// the first that refuses it: with the pods that are nominated for the node, and
// without. Those that are not built in are asked as in Filter, under the Watch
// of the attempt. It reports false where a plugin failed.
func (f *Framework) AllRejections(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (all []NodeRejection, ok bool) {
	crowded, crowdedState, status := f.addNominatedPods(ctx, state, pod, node)
	if !status.IsSuccess() {
		return nil, false
	}
	if crowded != nil && !fault.PromisesNotMissing {
		if all, ok = f.rejectionsOf(ctx, crowdedState, pod, crowded); !ok {
			return nil, false
		}
	}
	alone, ok := f.rejectionsOf(ctx, state, pod, node)
	for _, m := range alone {
		// More pods leave less room: of an amount, the larger lack is known.
		if !slices.ContainsFunc(all, func(known NodeRejection) bool {
			return known.Plugin() == m.Plugin() && (len(known.InsufficientResources) > 0 || slices.Equal(known.Reasons(), m.Reasons()))
		}) {
			all = append(all, m)
		}
	}
	return all, ok
}

// against is what the plugins have against a node as it is.
func (f *Framework) rejectionsOf(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (all []NodeRejection, ok bool) {
	for i, plugin := range f.filter {
		if state.GetSkipFilterPlugins().Has(plugin.Name()) {
			continue
		}
		status := f.runFilterChain(ctx, state, pod, node, f.filter[i:i+1])
		if status.IsError() {
			return nil, false
		}
		if status.IsSuccess() {
			continue
		}
		m := NodeRejection{Status: status}
		if measurer, ok := plugin.FilterPlugin.(InsufficientResourceReporter); ok && f.InTree(plugin.Name()) {
			m.InsufficientResources = measurer.InsufficientResources(nil, state, pod, node)
		}
		if all = append(all, m); fault.FirstMissingAlone {
			break
		}
	}
	return all, true
}

// measurer is a built-in Measurer in the Filter chain.
type resourceReporter struct {
	InsufficientResourceReporter
	name string
}

func (f *Framework) findResourceReporters() (all []resourceReporter) {
	for _, plugin := range f.filter {
		if m, ok := plugin.FilterPlugin.(InsufficientResourceReporter); ok && f.InTree(plugin.Name()) {
			all = append(all, resourceReporter{m, plugin.Name()})
		}
	}
	return all
}

// Shortages appends to list what built-in plugins say that a node has too little
// of. It is quick: many nodes can be compared by it.
func (f *Framework) InsufficientResources(list []InsufficientResource, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) []InsufficientResource {
	for _, m := range f.resourceReporters {
		if !state.GetSkipFilterPlugins().Has(m.name) {
			list = m.InsufficientResources(list, state, pod, node)
		}
	}
	return list
}

// BuiltIn says whether a plugin is, so that what it says is known: it names
// neither nodes nor other pods.
func (f *Framework) InTree(plugin string) bool {
	return !f.outOfTree.Has(plugin) && !IsExtender(plugin)
}

// Excluder is a built-in Filter plugin that can tell a refusal that ends when
// pods leave or a node recovers from one that stays until somebody edits the
// pod or the node, such as a node selector that does not match.
type PermanentRejecter interface {
	// Excludes reports whether the plugin refuses node for the pod, whose attempt
	// state is, for a reason that stays. It has to be cheap: it is called once for
	// each node that another plugin refused.
	RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool
}

// excluder is a built-in Excluder and its place in the Filter chain.
type permanentRejecter struct {
	PermanentRejecter
	name  string
	index int
}

func (f *Framework) findPermanentRejecters() (all []permanentRejecter) {
	for i, plugin := range f.filter {
		if e, ok := plugin.FilterPlugin.(PermanentRejecter); ok && f.InTree(plugin.Name()) {
			all = append(all, permanentRejecter{e, plugin.Name(), i})
		}
	}
	return all
}

// Exclusions returns how many built-in plugins refuse node for a reason that
// stays. refusedBy is the plugin that Filter ended with on that node: those
// before it in the chain have let the node pass, and are not asked again.
func (f *Framework) CountPermanentRejections(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, refusedBy string) (n int) {
	if len(f.permanentRejecters) == 0 {
		return 0
	}
	first := slices.IndexFunc(f.filter, func(plugin countedFilter) bool { return plugin.Name() == refusedBy })
	if first < 0 && IsExtender(refusedBy) {
		return 0 // extenders are asked last
	}
	for _, e := range f.permanentRejecters {
		if e.index >= first && !state.GetSkipFilterPlugins().Has(e.name) && e.RejectsPermanently(state, pod, node) {
			n++
		}
	}
	return n
}
