package framework

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

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
