package record

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// history is what the API server reported about a cluster: its initial state, and the
// changes since. The changes of one kind are in order.
type history struct {
	// profile and hash are those of the decisions to replay.
	profile, hash string

	nodes []*v1.Node
	// nodeOrder is the order of --node-order; nil if it was not given.
	nodeOrder []string
	pods      []*v1.Pod
	others    []state.Object
	// podsVersion is the resource version of the list of pods.
	podsVersion uint64

	changes []change
	// nodesVersion is the resource version up to which the changes of nodes are known.
	nodesVersion uint64

	// known are the newest versions of the pods, createdAt the resource versions of those that
	// were created after the list.
	known     map[types.UID]*v1.Pod
	createdAt map[types.UID]uint64
	decisions []recordedDecision
}

// change is a change of one object.
type change struct {
	version uint64
	object  state.Object
	deleted bool
}

// recordedDecision is a decision of Berth that was read from the annotation of a pod.
type recordedDecision struct {
	decision.Decision
	// pod is the pod before it was bound.
	pod *v1.Pod
	// podsObserved is the resource version up to which the leader had observed pods, at least:
	// it had observed the pod itself.
	podsObserved uint64
}

func newHistory(profile, hash string) *history {
	return &history{profile: profile, hash: hash, known: map[types.UID]*v1.Pod{}, createdAt: map[types.UID]uint64{}}
}

// addInitial adds an object of the initial state.
func (h *history) addInitial(object state.Object) {
	switch o := object.(type) {
	case *v1.Node:
		h.nodes = append(h.nodes, o)
		h.nodesVersion = max(h.nodesVersion, resourceVersion(o))
	case *v1.Pod:
		h.pods = append(h.pods, o)
		h.known[o.UID] = o
	default:
		h.others = append(h.others, o)
	}
}

// addChange adds a change. It reports whether the change is a decision of the profile.
func (h *history) addChange(object state.Object, deleted bool) (isDecision bool) {
	c := change{version: resourceVersion(object), object: object, deleted: deleted}
	switch o := object.(type) {
	case *v1.Node:
		h.nodesVersion = max(h.nodesVersion, c.version)
	case *v1.Pod:
		before, known := h.known[o.UID]
		if deleted {
			delete(h.known, o.UID)
			delete(h.createdAt, o.UID)
			break
		}
		h.known[o.UID] = o
		switch {
		case !known && o.Spec.NodeName == "":
			h.createdAt[o.UID] = c.version
		case known && before.Spec.NodeName == "" && o.Spec.NodeName != "":
			isDecision = h.addDecision(before, o)
		}
	}
	h.changes = append(h.changes, c)
	return isDecision
}

// addDecision reads the decision from a pod that was bound by this change.
func (h *history) addDecision(before, after *v1.Pod) (isDecision bool) {
	d, err := decision.ParseAnnotation(after.Annotations[v1alpha1.AnnotationDecision])
	if err != nil || d.Walk.Seq == 0 || !log.IsStart(d.Walk.Start) || d.Profile != after.Spec.SchedulerName || d.Node != after.Spec.NodeName {
		return false // of another scheduler, or changed by a user
	}
	h.decisions = append(h.decisions, recordedDecision{Decision: d, pod: before, podsObserved: max(d.Walk.Pods, h.createdAt[after.UID])})
	return d.Profile == h.profile && d.Hash == h.hash
}

// complete reports whether everything is known that the decisions had observed.
func (h *history) complete() bool {
	for i := range h.decisions {
		if h.decisions[i].Walk.Nodes > h.nodesVersion {
			return false
		}
	}
	return true
}
