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
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// recording is a log in the order in which Berth observed the changes.
type recording struct {
	ops []log.Op
	// replayed is the number of decisions that a replay makes again; notReplayed the number of
	// those whose placement is recorded instead.
	replayed, notReplayed int
	// gaps are what the log lacks that decisions depend on.
	gaps []string
}

// logBuilder orders a history.
type logBuilder struct {
	*history
	recording
	order *cache.NodeOrder
	// checksum is that of order; checksumStale: it must be computed again.
	checksum      uint32
	checksumStale bool
	// deferred are changes before next that Berth had not observed yet.
	deferred []change
	next     int
	// logged are the pods that the log has, decidedPods those whose decision it has.
	logged, decidedPods map[types.UID]bool
	// nodesObserved and podsObserved only grow, as the resource versions that a leader has
	// observed do.
	nodesObserved, podsObserved uint64
	unordered                   int
}

// buildLog returns the log.
func (h *history) buildLog() (*recording, error) {
	b := &logBuilder{history: h, logged: map[types.UID]bool{}, decidedPods: map[types.UID]bool{}}
	all := b.orderedDecisions()
	slices.SortStableFunc(b.changes, func(x, y change) int { return cmp.Compare(x.version, y.version) })
	first := slices.IndexFunc(all, b.hasInitialState)
	if first < 0 {
		first = len(all)
	}
	nodes, err := b.findNodeOrder(all[first:])
	if err != nil {
		return nil, err
	}
	b.writeInitialState(nodes)
	for i := range all {
		if i >= first {
			b.applyObserved(&all[i])
		}
		b.writeDecision(&all[i], i >= first)
	}
	if b.unordered > 0 {
		b.gaps = append(b.gaps, fmt.Sprintf("%s not replayed: the order of nodes could not be inferred after a change of nodes",
			show.Count(b.unordered, "decision")))
	}
	return &b.recording, nil
}

// orderedDecisions returns the decisions of one leader in the order in which it made them,
// as far as everything is known that it had observed.
func (b *logBuilder) orderedDecisions() []recordedDecision {
	all := slices.Clone(b.decisions)
	if len(all) == 0 {
		return nil
	}
	epoch := all[0].Epoch
	if at := slices.IndexFunc(all, func(d recordedDecision) bool { return d.Epoch != epoch }); at >= 0 {
		b.gaps = append(b.gaps, fmt.Sprintf("leader epoch %d follows epoch %d: the log ends there", all[at].Epoch, epoch))
		all = slices.DeleteFunc(all, func(d recordedDecision) bool { return d.Epoch != epoch })
	}
	slices.SortStableFunc(all, func(x, y recordedDecision) int { return cmp.Compare(x.Walk.Seq, y.Walk.Seq) })
	for i := 1; i < len(all); i++ {
		if all[i].Walk.Seq == all[i-1].Walk.Seq {
			b.gaps = append(b.gaps, fmt.Sprintf("two decisions have attempt number %d: another process took over; the log ends there", all[i].Walk.Seq))
			all = all[:i-1]
			break
		}
	}
	if at := slices.IndexFunc(all, func(d recordedDecision) bool { return d.Walk.Nodes > b.nodesVersion }); at >= 0 {
		b.gaps = append(b.gaps, fmt.Sprintf("%s had observed changes of nodes that were not received here: the log ends before", show.Count(len(all)-at, "decision")))
		all = all[:at]
	}
	return all
}

// hasInitialState reports whether a decision had observed everything that the log begins
// with.
func (b *logBuilder) hasInitialState(d recordedDecision) bool {
	newest := uint64(0)
	for _, node := range b.nodes {
		newest = max(newest, resourceVersion(node))
	}
	return d.podsObserved >= b.podsVersion && d.Walk.Nodes >= newest
}

// writeInitialState writes the initial state.
func (b *logBuilder) writeInitialState(nodes []*v1.Node) {
	for _, o := range b.others {
		b.ops = append(b.ops, log.Op{Kind: log.Apply, Object: o})
	}
	b.order, b.checksumStale = cache.NewNodeOrder(), true
	for _, node := range nodes {
		b.order.Set(node)
		b.ops = append(b.ops, log.Op{Kind: log.Apply, Object: node})
	}
	for _, pod := range b.pods {
		if b.isRelevant(pod, false) {
			b.ops = append(b.ops, log.Op{Kind: log.Apply, Object: pod})
		}
	}
}

// applyObserved writes the changes that a decision had observed.
func (b *logBuilder) applyObserved(d *recordedDecision) {
	b.nodesObserved, b.podsObserved = max(b.nodesObserved, d.Walk.Nodes), max(b.podsObserved, d.podsObserved)
	deferred := b.deferred[:0]
	for _, c := range b.deferred {
		if !b.isObserved(&c) {
			deferred = append(deferred, c)
			continue
		}
		b.applyChange(&c)
	}
	for ; b.next < len(b.changes) && b.changes[b.next].version <= max(b.nodesObserved, b.podsObserved); b.next++ {
		if c := b.changes[b.next]; b.isObserved(&c) {
			b.applyChange(&c)
		} else {
			deferred = append(deferred, c)
		}
	}
	b.deferred = deferred
}

// isObserved reports whether Berth had observed a change. For objects other than nodes and
// pods this is not known: their change counts as observed once a later one was.
func (b *logBuilder) isObserved(c *change) bool {
	switch c.object.(type) {
	case *v1.Node:
		return c.version <= b.nodesObserved
	case *v1.Pod:
		return c.version <= b.podsObserved
	}
	return c.version <= max(b.nodesObserved, b.podsObserved)
}

func (b *logBuilder) applyChange(c *change) {
	kind := log.Apply
	if c.deleted {
		kind = log.Delete
	}
	switch o := c.object.(type) {
	case *v1.Node:
		b.checksumStale = true
		if c.deleted {
			b.order.Remove(o.Name)
		} else {
			b.order.Set(o)
		}
	case *v1.Pod:
		if !b.isRelevant(o, c.deleted) {
			return
		}
	}
	b.ops = append(b.ops, log.Op{Kind: kind, Object: c.object})
}

// isRelevant reports whether a change of a pod affects decisions: that a pod is pending does
// not.
func (b *logBuilder) isRelevant(pod *v1.Pod, gone bool) bool {
	if b.decidedPods[pod.UID] && pod.Spec.NodeName == "" && !gone {
		return false // the log has its decision
	}
	if b.logged[pod.UID] {
		return true
	}
	b.logged[pod.UID] = !gone && (pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "")
	return b.logged[pod.UID]
}

// writeDecision writes a decision to be replayed, or its placement.
func (b *logBuilder) writeDecision(d *recordedDecision, replay bool) {
	if b.checksumStale {
		b.checksum, b.checksumStale = b.order.Checksum(), false
	}
	b.logged[d.pod.UID], b.decidedPods[d.pod.UID] = true, true
	if replay && b.checksum != d.Walk.Order {
		replay = false
		b.unordered++
	}
	if replay && d.Profile == b.profile && d.Hash == b.hash {
		b.replayed++
		b.ops = append(b.ops, log.Op{Kind: log.Schedule, Object: d.pod, Start: ptr.To(d.Walk.Start)})
		return
	}
	b.notReplayed++
	placed := d.pod.DeepCopy()
	placed.Spec.NodeName = d.Node
	b.ops = append(b.ops, log.Op{Kind: log.Apply, Object: placed})
}

// resourceVersion returns the resource version of an object; 0 if it is not a number.
func resourceVersion(o state.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}
