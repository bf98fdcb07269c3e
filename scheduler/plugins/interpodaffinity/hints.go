package interpodaffinity

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// EventsToRegister registers pods that are added, deleted or relabeled and nodes whose
// domains may change. Unlike upstream it also registers deletions of nodes, and
// namespaces.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.UpdatePodLabel | fwk.Delete},
			QueueingHintFn: p.isSchedulableAfterPodChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: isSchedulableAfterTargetPodLabelChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel},
			QueueingHintFn: isSchedulableAfterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: framework.Namespace, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn: p.isSchedulableAfterNamespaceChange,
		},
	}, nil
}

// requiredTerms are the pod's required terms.
type requiredTerms struct{ affinity, antiAffinity []fwk.AffinityTerm }

func requiredTermsOf(pod *v1.Pod) (w requiredTerms, err error) {
	w.affinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(pod.Spec.Affinity))
	if err == nil {
		w.antiAffinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity))
	}
	return w, err
}

// isSchedulableAfterPodChange requeues the pod when a pod now satisfies its affinity,
// when a pod no longer violates its anti-affinity, or when a pod is deleted whose
// anti-affinity rejected it. Unlike upstream it looks up the namespaces that terms
// select. It also requeues the pod when the last pod of its own affinity group may be
// gone: then the pod may go to any domain.
func (p *Plugin) isSchedulableAfterPodChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for _, other := range []*v1.Pod{before, after} {
		if other != nil && other.Spec.NodeName == "" && other.Status.NominatedNodeName == "" {
			return fwk.QueueSkip, nil
		}
	}
	w, err := requiredTermsOf(pod)
	if err != nil {
		return fwk.Queue, err
	}
	affinity, err := p.resolveNamespaces(w.affinity)
	if err != nil {
		return fwk.Queue, err
	}
	antiAffinity, err := p.resolveNamespaces(w.antiAffinity)
	if err != nil {
		return fwk.Queue, err
	}
	affinityPods := podsMatchingAll(affinity)
	was, is := contains(affinityPods, before), contains(affinityPods, after)
	if !was && is || was && !is && contains(affinityPods, pod) {
		return fwk.Queue, nil
	}
	for _, t := range antiAffinity {
		if contains(t.pods, before) && !contains(t.pods, after) {
			return fwk.Queue, nil
		}
	}
	if before == nil || after != nil {
		return fwk.QueueSkip, nil
	}
	return p.hintForRemovedAntiAffinity(pod, before)
}

// hintForRemovedAntiAffinity requeues the pod when a required anti-affinity term of the
// deleted pod gone selected it.
func (p *Plugin) hintForRemovedAntiAffinity(pod, deleted *v1.Pod) (fwk.QueueingHint, error) {
	terms, err := fwk.GetAffinityTerms(deleted, fwk.GetPodAntiAffinityTerms(deleted.Spec.Affinity))
	if err != nil {
		return fwk.Queue, err
	}
	namespace := p.namespaceLabels(pod.Namespace)
	for i := range terms {
		if terms[i].Matches(pod, namespace) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

func contains(set *counts.PodSet, pod *v1.Pod) bool {
	return set != nil && pod != nil && set.Has(pod)
}

// isSchedulableAfterTargetPodLabelChange requeues the pod: the terms of other pods may
// no longer match its new labels.
func isSchedulableAfterTargetPodLabelChange(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	return fwk.Queue, nil
}

// isSchedulableAfterNodeChange requeues the pod when a node is added with a topology
// label of the pod's affinity, when a node is deleted with its pods, or when a node's
// labels change. The topology keys of the terms of placed pods are not known here. So,
// unlike upstream, a change of any label requeues the pod, and so does a new node when
// the pod has no affinity of its own.
func isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil || before != nil {
		return fwk.Queue, err
	}
	w, err := requiredTermsOf(pod)
	if err != nil {
		return fwk.Queue, err
	}
	for _, t := range w.affinity {
		if _, ok := after.Labels[t.TopologyKey]; ok {
			return fwk.Queue, nil
		}
	}
	if len(w.affinity) > 0 {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// isSchedulableAfterNamespaceChange requeues the pod when a namespace starts or stops
// to match a namespace selector of its terms, and when the labels of the pod's own
// namespace change, because namespace selectors of other pods may match these.
func (*Plugin) isSchedulableAfterNamespaceChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Namespace](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	was, is := labels.Set(nil), labels.Set(nil)
	name := ""
	if before != nil {
		name, was = before.Name, before.Labels
	}
	if after != nil {
		name, is = after.Name, after.Labels
	}
	if name == pod.Namespace && !maps.Equal(was, is) {
		return fwk.Queue, nil
	}
	w, err := requiredTermsOf(pod)
	if err != nil {
		return fwk.Queue, err
	}
	for _, t := range append(w.affinity, w.antiAffinity...) {
		if t.NamespaceSelector.Empty() || t.Namespaces.Has(name) {
			continue // the term selects the namespace, whatever its labels are
		}
		selected := before != nil && t.NamespaceSelector.Matches(was)
		if selects := after != nil && t.NamespaceSelector.Matches(is); selects != selected {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}
