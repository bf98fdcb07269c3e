package upstream

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berthdev/berth/test/replay/run"
)

// observed is a framework that remembers what an attempt asked it and what it
// said.
type observed struct {
	framework.Framework
	refused map[string]int
	scored  []fwk.NodePluginScores
}

// Refused says, of the last attempt, how many nodes each plugin refused. All
// that a plugin refuses before any node is looked at counts as one.
func (s *Scheduler) Refused() map[string]int { return maps.Clone(s.observed.refused) }

// Scored are the scores of the last attempt, in the order of the nodes.
func (s *Scheduler) Scored() []fwk.NodePluginScores { return s.observed.scored }

// Winner is the node that kube-scheduler picks from scores, whose totals only
// are looked at.
func Winner(scores []fwk.NodePluginScores) string {
	return framework.NewSortedScoredNodes(append([]fwk.NodePluginScores(nil), scores...)).Pop().Name
}

func (o *observed) begin() { o.refused, o.scored = map[string]int{}, nil }

func (o *observed) note(status *fwk.Status) {
	if status.IsRejected() && status.Plugin() != "" {
		o.refused[status.Plugin()]++
	}
}

func (o *observed) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := o.Framework.RunPreFilterPlugins(ctx, state, pod)
	o.note(status)
	for plugin := range plugins {
		o.refused[plugin]++ // it left nodes out of the search
	}
	return result, status, plugins
}

func (o *observed) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	status := o.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	o.note(status)
	return status
}

func (o *observed) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := o.Framework.RunScorePlugins(ctx, state, pod, nodes)
	// The caller makes a heap of its slice.
	o.scored = append([]fwk.NodePluginScores(nil), scores...)
	return scores, status
}

func (o *observed) scores() run.Scores {
	if o.scored == nil {
		return nil
	}
	scores := run.Scores{}
	for _, node := range o.scored {
		scores[node.Name] = map[string]int64{}
		for _, plugin := range node.Scores {
			scores[node.Name][plugin.Name] = plugin.Score
		}
	}
	return scores
}
