package framework

import (
	"context"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// extenderPrefix distinguishes extenders from plugins.
const extenderPrefix = "Extender/"

// ExtenderPluginName is the name of an extender where plugins are named: in
// reasons, in scores, and in the queue. No plugin can have such a name.
func ExtenderPluginName(extender string) string { return extenderPrefix + extender }

// IsExtender reports whether a plugin name is that of an extender.
func IsExtender(plugin string) bool { return strings.HasPrefix(plugin, extenderPrefix) }

// Extenders are the profile's extenders in the order in which they are called.
// On trial there are none.
func (f *Framework) Extenders() []fwk.Extender { return f.extenders }

// HasInterestedExtender reports whether an extender filters or scores nodes for
// the pod. Its answers hold for one attempt and are not cached.
func (f *Framework) HasInterestedExtender(pod *v1.Pod) bool {
	for _, e := range f.extenders {
		if (e.IsFilter() || e.IsPrioritizer()) && e.IsInterested(pod) {
			return true
		}
	}
	return false
}

// FirstFeasibleNodeSuffices reports whether neither a Score plugin nor any
// extender can prefer one feasible node to another. As in kube-scheduler it
// does not depend on the pod.
func (f *Framework) FirstFeasibleNodeSuffices() bool {
	for _, e := range f.extenders {
		if e.IsFilter() || e.IsPrioritizer() {
			return false
		}
	}
	return !f.HasScorePlugins()
}

// BindWithExtender lets the first interested extender bind the pod; by is "" if
// there is none. If an ignorable extender fails, the next one or the Bind
// plugins bind the pod.
func (f *Framework) BindWithExtender(_ context.Context, pod *v1.Pod, node string) (by string, err error) {
	for _, e := range f.extenders {
		if !e.IsBinder() || !e.IsInterested(pod) {
			continue
		}
		err := e.Bind(&v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: node},
		})
		if err != nil && e.IsIgnorable() {
			continue
		}
		return ExtenderPluginName(e.Name()), err
	}
	return "", nil
}

// AddPluginScores adds the weighted scores of one more plugin or extender.
func (s *Scores) AddPluginScores(plugin string, weighted fwk.NodeScoreList) {
	for i := range weighted {
		s.Total[i] += weighted[i].Score
	}
	s.Plugins = append(s.Plugins, plugin)
	s.Raw = append(s.Raw, weighted)
	s.Weighted = append(s.Weighted, weighted)
}

// extenderEvents are the events of extenders that filter: all, since an
// extender cannot register for events.
func (f *Framework) extenderEvents() (hints []RegisteredEvent) {
	for _, e := range f.extenders {
		if !e.IsFilter() {
			continue
		}
		for _, event := range allEvents {
			hints = append(hints, RegisteredEvent{Plugin: ExtenderPluginName(e.Name()), ClusterEventWithHint: event})
		}
	}
	return hints
}

// closeExtenders closes the connections of the extenders.
func (f *Framework) closeExtenders() {
	for _, e := range f.extenders {
		if closer, ok := e.(io.Closer); ok {
			_ = f.callRecovered(nil, nil, ExtenderPluginName(e.Name()), "Close", func() *fwk.Status {
				if err := closer.Close(); err != nil {
					return fwk.AsStatus(fmt.Errorf("closing: %w", err))
				}
				return nil
			})
		}
	}
}
