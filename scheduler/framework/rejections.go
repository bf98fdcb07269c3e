package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// InsufficientResource is a resource of which a node has less free than a pod
// requests. CPU is in millicores, memory and storage in bytes.
type InsufficientResource struct {
	// Resource is empty where DeviceRequest is set: that is claim/request, and the
	// amounts are numbers of devices.
	Resource      v1.ResourceName
	DeviceRequest string
	// Requested is the pod's request. Free is what is left on the node; it is
	// negative if pods request more than the node has.
	Requested, Free int64
}

// InsufficientResourceReporter is a Filter plugin that rejects nodes for lack
// of resources and can name them.
type InsufficientResourceReporter interface {
	// InsufficientResources appends to list the resources that node lacks for
	// the pod of state, in the order of Filter's reasons; nothing if Filter
	// rejects the node for other reasons.
	InsufficientResources(list []InsufficientResource, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) []InsufficientResource
}

// NodeRejection is the rejection of a node by one plugin.
type NodeRejection struct {
	*fwk.Status
	// InsufficientResources are all reasons of Status, if the plugin can name
	// them.
	InsufficientResources []InsufficientResource
}

// AllRejections runs every Filter plugin for a node, not only up to the first
// that rejects it, with the nominated pods of the node and without them. Calls
// of out-of-tree plugins are tracked by the CallWatch of state. ok is false if
// a plugin failed.
func (f *Framework) AllRejections(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (all []NodeRejection, ok bool) {
	withNominated, withNominatedState, status := f.addNominatedPods(ctx, state, pod, node)
	if !status.IsSuccess() {
		return nil, false
	}
	if withNominated != nil {
		if all, ok = f.rejectionsOf(ctx, withNominatedState, pod, withNominated); !ok {
			return nil, false
		}
	}
	without, ok := f.rejectionsOf(ctx, state, pod, node)
	for _, m := range without {
		// With the nominated pods less is free, so that the larger lack is in
		// all already.
		if !slices.ContainsFunc(all, func(known NodeRejection) bool {
			return known.Plugin() == m.Plugin() && (len(known.InsufficientResources) > 0 || slices.Equal(known.Reasons(), m.Reasons()))
		}) {
			all = append(all, m)
		}
	}
	return all, ok
}

// rejectionsOf returns the rejections of a node by all Filter plugins.
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
		all = append(all, m)
	}
	return all, true
}

// resourceReporter is an in-tree InsufficientResourceReporter of the Filter
// chain.
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

// InsufficientResources appends to list what in-tree plugins say that a node
// lacks. It is cheap enough to compare many nodes.
func (f *Framework) InsufficientResources(list []InsufficientResource, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) []InsufficientResource {
	for _, m := range f.resourceReporters {
		if !state.GetSkipFilterPlugins().Has(m.name) {
			list = m.InsufficientResources(list, state, pod, node)
		}
	}
	return list
}

// InTree reports whether a plugin is in-tree. Messages of in-tree plugins name
// neither nodes nor other pods.
func (f *Framework) InTree(plugin string) bool {
	return !f.outOfTree.Has(plugin) && !IsExtender(plugin)
}

// PermanentRejecter is an in-tree Filter plugin that distinguishes rejections
// which end when pods leave or the node recovers from those which last until
// somebody edits the pod or the node, for example because of a node selector.
type PermanentRejecter interface {
	// RejectsPermanently reports whether the plugin rejects node for the pod
	// until somebody edits one of them. state is the attempt's. It must be
	// cheap: it is called for each node that another plugin rejected.
	RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool
}

// permanentRejecter is an in-tree PermanentRejecter with its index in the
// Filter chain.
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

// CountPermanentRejections returns the number of in-tree plugins that reject
// node permanently. refusedBy is the plugin that rejected the node in Filter;
// plugins before it let the node pass and are not called.
func (f *Framework) CountPermanentRejections(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, refusedBy string) (n int) {
	if len(f.permanentRejecters) == 0 {
		return 0
	}
	first := slices.IndexFunc(f.filter, func(plugin CountedFilter) bool { return plugin.Name() == refusedBy })
	if first < 0 && IsExtender(refusedBy) {
		return 0 // extenders run after all plugins
	}
	for _, e := range f.permanentRejecters {
		if e.index >= first && !state.GetSkipFilterPlugins().Has(e.name) && e.RejectsPermanently(state, pod, node) {
			n++
		}
	}
	return n
}
