package record

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/decision"
)

// history is what the API server told of a cluster: its state, and the changes
// since, those of one kind in their order.
type history struct {
	// profile and hash are of the decisions that are to be decided again.
	profile, hash string

	nodes []*v1.Node
	// nodeOrder is the order of the nodes as --node-order has it; nil: not given.
	nodeOrder []string
	pods      []*v1.Pod
	others    []state.Object
	// podsAt is the resource version of the list of pods.
	podsVersion uint64

	changes []change
	// nodesTo is how far the changes of nodes are known.
	nodesVersion uint64

	// known are pods by their newest version, born is when those came that did so
	// since the list.
	known     map[types.UID]*v1.Pod
	createdAt map[types.UID]uint64
	decisions []recordedDecision
}

// change is one thing that happened to one object.
type change struct {
	version uint64
	object  state.Object
	deleted bool
}

// decided is a decision of Berth's that was read off a pod.
type recordedDecision struct {
	decision.Decision
	// pod is as it was before it had a node.
	pod *v1.Pod
	// heard is how far whoever decided had come in the changes of pods, for all
	// that is known: it had heard of the pod itself.
	podsObserved uint64
}

func newHistory(profile, hash string) *history {
	return &history{profile: profile, hash: hash, known: map[types.UID]*v1.Pod{}, createdAt: map[types.UID]uint64{}}
}

// begin takes the state that the changes start from.
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

// add takes a change. It reports whether it tells of a decision of the profile.
func (h *history) addChange(object state.Object, gone bool) (ours bool) {
	c := change{version: resourceVersion(object), object: object, deleted: gone}
	switch o := object.(type) {
	case *v1.Node:
		h.nodesVersion = max(h.nodesVersion, c.version)
	case *v1.Pod:
		before, known := h.known[o.UID]
		if gone {
			delete(h.known, o.UID)
			delete(h.createdAt, o.UID)
			break
		}
		h.known[o.UID] = o
		switch {
		case !known && o.Spec.NodeName == "":
			h.createdAt[o.UID] = c.version
		case known && before.Spec.NodeName == "" && o.Spec.NodeName != "":
			ours = h.addDecision(before, o)
		}
	}
	h.changes = append(h.changes, c)
	return ours
}

// placed reads a decision off a pod that has a node since it was last heard of.
func (h *history) addDecision(before, after *v1.Pod) (ours bool) {
	d, err := decision.ParseAnnotation(after.Annotations[decision.AnnotationKey])
	if err != nil || d.Walk.Seq == 0 || d.Profile != after.Spec.SchedulerName || d.Node != after.Spec.NodeName {
		return false // somebody else's
	}
	h.decisions = append(h.decisions, recordedDecision{Decision: d, pod: before, podsObserved: max(d.Walk.Pods, h.createdAt[after.UID])})
	return d.Profile == h.profile && d.Hash == h.hash
}

// complete says whether all is known that the decisions had heard of.
func (h *history) complete() bool {
	for i := range h.decisions {
		if h.decisions[i].Walk.Nodes > h.nodesVersion {
			return false
		}
	}
	return true
}
