package interpodaffinity

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister asks for pods that come, go or change their labels, for
// nodes that may change domains and, other than upstream, for nodes that go and
// for namespaces.
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

// wishes are the terms that the pod requires.
type requiredTerms struct{ affinity, antiAffinity []fwk.AffinityTerm }

func requiredTermsOf(pod *v1.Pod) (w requiredTerms, err error) {
	w.affinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(pod.Spec.Affinity))
	if err == nil {
		w.antiAffinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity))
	}
	return w, err
}

// afterPod queues the pod when a pod that it wants near came, one that it does
// not want went, or one went that did not want it. Other than upstream it looks
// up the namespaces that terms select, and it queues the pod when the last of
// its own kind may have gone: then it may go anywhere.
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
	anti, err := p.resolveNamespaces(w.antiAffinity)
	if err != nil {
		return fwk.Queue, err
	}
	wanted := podsMatchingAll(affinity)
	was, is := contains(wanted, before), contains(wanted, after)
	if !was && is || was && !is && contains(wanted, pod) {
		return fwk.Queue, nil
	}
	for _, t := range anti {
		if contains(t.pods, before) && !contains(t.pods, after) {
			return fwk.Queue, nil
		}
	}
	if before == nil || after != nil {
		return fwk.QueueSkip, nil
	}
	return p.hintForRemovedAntiAffinity(pod, before)
}

// afterGuard queues the pod when gone kept it away.
func (p *Plugin) hintForRemovedAntiAffinity(pod, gone *v1.Pod) (fwk.QueueingHint, error) {
	guards, err := fwk.GetAffinityTerms(gone, fwk.GetPodAntiAffinityTerms(gone.Spec.Affinity))
	if err != nil {
		return fwk.Queue, err
	}
	namespace := p.namespaceLabels(pod.Namespace)
	for i := range guards {
		if guards[i].Matches(pod, namespace) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

func contains(set *framework.PodSet, pod *v1.Pod) bool {
	return set != nil && pod != nil && set.Has(pod)
}

// afterItself queues the pod: the terms of others may not match its new labels.
func isSchedulableAfterTargetPodLabelChange(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	return fwk.Queue, nil
}

// afterNode queues the pod when a node may give it a domain to go to: when one
// came that has a label its affinity goes by, when one went with the pods on
// it, or when one changed its labels. By which labels placed pods keep the pod
// away is theirs to say and not known here; so, other than upstream, any do.
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

// afterNamespace queues the pod when other pods may be meant by its terms, or
// it by theirs: when a namespace that a term selects is selected no more, or
// the other way round, and when the labels of its own namespace change.
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
			continue // the namespace is meant whatever its labels
		}
		meant := before != nil && t.NamespaceSelector.Matches(was)
		if means := after != nil && t.NamespaceSelector.Matches(is); means != meant {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}
