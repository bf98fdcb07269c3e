package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// recording is a history, in the order in which Berth met it.
type recording struct {
	ops []log.Op
	// again is how many decisions are to be decided again, taken how many pods
	// take their room instead.
	replayed, notReplayed int
	// faults are what the log lacks that decides.
	gaps []string
}

// arranger puts a history in order.
type logBuilder struct {
	*history
	recording
	order *sandbox.NodeOrder
	// sum is of order; stale says that it has to be made again.
	checksum      uint32
	checksumStale bool
	// waiting are changes before the next one that Berth had not heard of yet.
	deferred []change
	next     int
	// told are the pods that the log has told of, placed those whose decision it has.
	logged, decidedPods map[types.UID]bool
	// nodesHeard and podsHeard only grow, as what a leader has heard of does.
	nodesObserved, podsObserved uint64
	unordered                   int
}

// arrange returns the log.
func (h *history) buildLog() (*recording, error) {
	a := &logBuilder{history: h, logged: map[types.UID]bool{}, decidedPods: map[types.UID]bool{}}
	all := a.orderedDecisions()
	slices.SortStableFunc(a.changes, func(x, y change) int { return cmp.Compare(x.version, y.version) })
	first := slices.IndexFunc(all, a.hasInitialState)
	if first < 0 {
		first = len(all)
	}
	nodes, err := a.findNodeOrder(all[first:])
	if err != nil {
		return nil, err
	}
	a.writeInitialState(nodes)
	for i := range all {
		if i >= first {
			a.applyObserved(&all[i])
		}
		a.writeDecision(&all[i], i >= first)
	}
	if a.unordered > 0 {
		a.gaps = append(a.gaps, fmt.Sprintf("before %s the nodes changed in a way that the order in which they are tried could not be found out after: they are not decided again",
			show.Count(a.unordered, "decision")))
	}
	return &a.recording, nil
}

// inOrder are the decisions of one leader, as it made them, as far as all is known
// that it had heard of.
func (a *logBuilder) orderedDecisions() []recordedDecision {
	all := slices.Clone(a.decisions)
	if len(all) == 0 {
		return nil
	}
	epoch := all[0].Epoch
	if at := slices.IndexFunc(all, func(d recordedDecision) bool { return d.Epoch != epoch }); at >= 0 {
		a.gaps = append(a.gaps, fmt.Sprintf("leadership %d took over from %d: the log ends there", all[at].Epoch, epoch))
		all = slices.DeleteFunc(all, func(d recordedDecision) bool { return d.Epoch != epoch })
	}
	slices.SortStableFunc(all, func(x, y recordedDecision) int { return cmp.Compare(x.Walk.Seq, y.Walk.Seq) })
	for i := 1; i < len(all); i++ {
		if all[i].Walk.Seq == all[i-1].Walk.Seq {
			a.gaps = append(a.gaps, fmt.Sprintf("two decisions are attempt %d: another process took over; the log ends there", all[i].Walk.Seq))
			all = all[:i-1]
			break
		}
	}
	if at := slices.IndexFunc(all, func(d recordedDecision) bool { return d.Walk.Nodes > a.nodesVersion }); at >= 0 {
		a.gaps = append(a.gaps, fmt.Sprintf("%s had heard of changes of nodes that did not come here: the log ends before", show.Count(len(all)-at, "decision")))
		all = all[:at]
	}
	return all
}

// follows says whether a decision had heard of all that the log begins with.
func (a *logBuilder) hasInitialState(d recordedDecision) bool {
	newest := uint64(0)
	for _, node := range a.nodes {
		newest = max(newest, resourceVersion(node))
	}
	return d.podsObserved >= a.podsVersion && d.Walk.Nodes >= newest
}

// begins writes the state.
func (a *logBuilder) writeInitialState(nodes []*v1.Node) {
	for _, o := range a.others {
		a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: o})
	}
	a.order, a.checksumStale = sandbox.NewNodeOrder(), true
	for _, node := range nodes {
		a.order.Set(node)
		a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: node})
	}
	for _, pod := range a.pods {
		if a.isRelevant(pod, false) {
			a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: pod})
		}
	}
}

// catchUp writes what a decision had heard of.
func (a *logBuilder) applyObserved(d *recordedDecision) {
	a.nodesObserved, a.podsObserved = max(a.nodesObserved, d.Walk.Nodes), max(a.podsObserved, d.podsObserved)
	waiting := a.deferred[:0]
	for _, c := range a.deferred {
		if !a.isObserved(&c) {
			waiting = append(waiting, c)
			continue
		}
		a.applyChange(&c)
	}
	for ; a.next < len(a.changes) && a.changes[a.next].version <= max(a.nodesObserved, a.podsObserved); a.next++ {
		if c := a.changes[a.next]; a.isObserved(&c) {
			a.applyChange(&c)
		} else {
			waiting = append(waiting, c)
		}
	}
	a.deferred = waiting
}

// heard says whether a change had come to Berth. Of what is neither node nor pod
// it is not known: it counts as heard once something later was.
func (a *logBuilder) isObserved(c *change) bool {
	switch c.object.(type) {
	case *v1.Node:
		return c.version <= a.nodesObserved
	case *v1.Pod:
		return c.version <= a.podsObserved
	}
	return c.version <= max(a.nodesObserved, a.podsObserved)
}

func (a *logBuilder) applyChange(c *change) {
	kind := log.Apply
	if c.deleted {
		kind = log.Delete
	}
	switch o := c.object.(type) {
	case *v1.Node:
		a.checksumStale = true
		if c.deleted {
			a.order.Remove(o.Name)
		} else {
			a.order.Set(o)
		}
	case *v1.Pod:
		if !a.isRelevant(o, c.deleted) {
			return
		}
	}
	a.ops = append(a.ops, log.Op{Kind: kind, Object: c.object})
}

// matters says whether a change of a pod is news to whoever decides: that it waits
// for a node is not.
func (a *logBuilder) isRelevant(pod *v1.Pod, gone bool) bool {
	if a.decidedPods[pod.UID] && pod.Spec.NodeName == "" && !gone {
		return false // it was decided about already
	}
	if a.logged[pod.UID] {
		return true
	}
	a.logged[pod.UID] = !gone && (pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "")
	return a.logged[pod.UID]
}

// decide writes a decision: to be decided again, or as something that is so.
func (a *logBuilder) writeDecision(d *recordedDecision, again bool) {
	if a.checksumStale {
		a.checksum, a.checksumStale = a.order.Checksum(), false
	}
	a.logged[d.pod.UID], a.decidedPods[d.pod.UID] = true, true
	if again && a.checksum != d.Walk.Order {
		again = false
		a.unordered++
	}
	if again && d.Profile == a.profile && d.Hash == a.hash {
		a.replayed++
		a.ops = append(a.ops, log.Op{Kind: log.Schedule, Object: d.pod, Start: ptr.To(d.Walk.Start)})
		return
	}
	a.notReplayed++
	placed := d.pod.DeepCopy()
	placed.Spec.NodeName = d.Node
	a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: placed})
}

// versionOf is an object's resource version; 0 for what is no number.
func resourceVersion(o state.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}
