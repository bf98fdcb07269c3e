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

// extenderPrefix tells extenders from plugins where both are named.
const extenderPrefix = "Extender/"

// ExtenderPlugin is what an extender is called where plugins are named: in
// reasons, in scores, and by those that wait for what refused them. No plugin is
// called like that.
func ExtenderPluginName(extender string) string { return extenderPrefix + extender }

// IsExtender says whether a plugin's name is that of an extender.
func IsExtender(plugin string) bool { return strings.HasPrefix(plugin, extenderPrefix) }

// Extenders are those of the profile, in the order in which they are asked. On
// trial there are none.
func (f *Framework) Extenders() []fwk.Extender { return f.extenders }

// Extended says whether an extender has a say in where the pod goes. What such a
// one says holds for the attempt alone: nothing of it is remembered.
func (f *Framework) HasInterestedExtender(pod *v1.Pod) bool {
	for _, e := range f.extenders {
		if (e.IsFilter() || e.IsPrioritizer()) && e.IsInterested(pod) {
			return true
		}
	}
	return false
}

// FirstWillDo says that of nodes that fit none is better than another, and that
// nobody has to be asked about them: as in kube-scheduler, whatever the pod.
func (f *Framework) FirstFeasibleNodeSuffices() bool {
	for _, e := range f.extenders {
		if e.IsFilter() || e.IsPrioritizer() {
			return false
		}
	}
	return !f.HasScorePlugins()
}

// BindByExtender has an extender bind the pod, if one is to. An extender that
// may be ignored and fails leaves the pod to the Bind plugins.
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

// AddScores adds one more row: what a plugin, or whoever speaks as one, gives the
// nodes, weighed already.
func (s *Scores) AddPluginScores(plugin string, weighted fwk.NodeScoreList) {
	for i := range weighted {
		s.Total[i] += weighted[i].Score
	}
	s.Plugins = append(s.Plugins, plugin)
	s.Raw = append(s.Raw, weighted)
	s.Weighted = append(s.Weighted, weighted)
}

// extenderHints wake pods that an extender refused at anything that happens: it
// cannot say what it waits for.
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

// closeExtenders lets go of their connections.
func (f *Framework) closeExtenders() {
	for _, e := range f.extenders {
		if closer, ok := e.(io.Closer); ok {
			_ = f.callRecovered(nil, ExtenderPluginName(e.Name()), "Close", func() *fwk.Status {
				if err := closer.Close(); err != nil {
					return fwk.AsStatus(fmt.Errorf("closing: %w", err))
				}
				return nil
			})
		}
	}
}
