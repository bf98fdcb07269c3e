package compare

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// follower is kube-scheduler, which lets Berth choose where kube-scheduler
// itself leaves the choice to chance: it goes through a set of node names in
// the order of a map, and that order breaks ties.
type follower struct {
	*upstream.Scheduler
	// leader is what Berth decided.
	leader *run.Outcome
}

// Attempt takes Berth's node when kube-scheduler could as well have chosen it.
func (f *follower) Attempt(pod *v1.Pod) *run.Outcome {
	f.Prefer("")
	if f.leader != nil {
		f.Prefer(f.leader.Nominated)
	}
	outcome := f.Scheduler.Attempt(pod)
	if f.leader != nil && outcome.Node != f.leader.Node && severalNames(pod) && best(outcome.Scores, f.leader.Node) {
		outcome.Node = f.leader.Node
	}
	return outcome
}

// severalNames says whether PreFilter may narrow the search down to a set of
// more than one node.
func severalNames(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	names := sets.New[string]()
	for _, term := range required.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key == metav1.ObjectNameField && r.Operator == v1.NodeSelectorOpIn {
				names.Insert(r.Values...)
			}
		}
	}
	return len(names) > 1
}

// best says whether node was scored, and no other higher.
func best(scores run.Scores, node string) bool {
	if _, scored := scores[node]; !scored {
		return false
	}
	for _, other := range scores {
		if total(other) > total(scores[node]) {
			return false
		}
	}
	return true
}

func total(scores map[string]int64) int64 {
	var sum int64
	for _, score := range scores {
		sum += score
	}
	return sum
}
