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
	"github.com/berthdev/berth/scheduler/offline"
	"github.com/berthdev/berth/scheduler/offline/log"
)

// recording is a history, in the order in which Berth met it.
type recording struct {
	ops []log.Op
	// again is how many decisions are to be decided again, taken how many pods
	// take their room instead.
	again, taken int
	// faults are what the log lacks that decides.
	faults []string
}

// arranger puts a history in order.
type arranger struct {
	*history
	recording
	order *offline.NodeOrder
	// sum is of order; stale says that it has to be made again.
	sum   uint32
	stale bool
	// waiting are changes before the next one that Berth had not heard of yet.
	waiting []change
	next    int
	// told are the pods that the log has told of, placed those whose decision it has.
	told, placed map[types.UID]bool
	// nodesHeard and podsHeard only grow, as what a leader has heard of does.
	nodesHeard, podsHeard uint64
	unordered             int
}

// arrange returns the log.
func (h *history) arrange() (*recording, error) {
	a := &arranger{history: h, told: map[types.UID]bool{}, placed: map[types.UID]bool{}}
	all := a.inOrder()
	slices.SortStableFunc(a.changes, func(x, y change) int { return cmp.Compare(x.version, y.version) })
	first := slices.IndexFunc(all, a.follows)
	if first < 0 {
		first = len(all)
	}
	nodes, err := a.likely(all[first:])
	if err != nil {
		return nil, err
	}
	a.begins(nodes)
	for i := range all {
		if i >= first {
			a.catchUp(&all[i])
		}
		a.decide(&all[i], i >= first)
	}
	if a.unordered > 0 {
		a.faults = append(a.faults, fmt.Sprintf("before %s the nodes changed in a way that the order in which they are tried could not be found out after: they are not decided again",
			show.Count(a.unordered, "decision")))
	}
	return &a.recording, nil
}

// inOrder are the decisions of one leader, as it made them, as far as all is known
// that it had heard of.
func (a *arranger) inOrder() []decided {
	all := slices.Clone(a.decisions)
	if len(all) == 0 {
		return nil
	}
	epoch := all[0].Epoch
	if at := slices.IndexFunc(all, func(d decided) bool { return d.Epoch != epoch }); at >= 0 {
		a.faults = append(a.faults, fmt.Sprintf("leadership %d took over from %d: the log ends there", all[at].Epoch, epoch))
		all = slices.DeleteFunc(all, func(d decided) bool { return d.Epoch != epoch })
	}
	slices.SortStableFunc(all, func(x, y decided) int { return cmp.Compare(x.Walk.Seq, y.Walk.Seq) })
	for i := 1; i < len(all); i++ {
		if all[i].Walk.Seq == all[i-1].Walk.Seq {
			a.faults = append(a.faults, fmt.Sprintf("two decisions are attempt %d: another process took over; the log ends there", all[i].Walk.Seq))
			all = all[:i-1]
			break
		}
	}
	if at := slices.IndexFunc(all, func(d decided) bool { return d.Walk.Nodes > a.nodesTo }); at >= 0 {
		a.faults = append(a.faults, fmt.Sprintf("%s had heard of changes of nodes that did not come here: the log ends before", show.Count(len(all)-at, "decision")))
		all = all[:at]
	}
	return all
}

// follows says whether a decision had heard of all that the log begins with.
func (a *arranger) follows(d decided) bool {
	newest := uint64(0)
	for _, node := range a.nodes {
		newest = max(newest, versionOf(node))
	}
	return d.heard >= a.podsAt && d.Walk.Nodes >= newest
}

// begins writes the state.
func (a *arranger) begins(nodes []*v1.Node) {
	for _, o := range a.others {
		a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: o})
	}
	a.order, a.stale = offline.NewNodeOrder(), true
	for _, node := range nodes {
		a.order.Set(node)
		a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: node})
	}
	for _, pod := range a.pods {
		if a.matters(pod, false) {
			a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: pod})
		}
	}
}

// catchUp writes what a decision had heard of.
func (a *arranger) catchUp(d *decided) {
	a.nodesHeard, a.podsHeard = max(a.nodesHeard, d.Walk.Nodes), max(a.podsHeard, d.heard)
	waiting := a.waiting[:0]
	for _, c := range a.waiting {
		if !a.heard(&c) {
			waiting = append(waiting, c)
			continue
		}
		a.happens(&c)
	}
	for ; a.next < len(a.changes) && a.changes[a.next].version <= max(a.nodesHeard, a.podsHeard); a.next++ {
		if c := a.changes[a.next]; a.heard(&c) {
			a.happens(&c)
		} else {
			waiting = append(waiting, c)
		}
	}
	a.waiting = waiting
}

// heard says whether a change had come to Berth. Of what is neither node nor pod
// it is not known: it counts as heard once something later was.
func (a *arranger) heard(c *change) bool {
	switch c.object.(type) {
	case *v1.Node:
		return c.version <= a.nodesHeard
	case *v1.Pod:
		return c.version <= a.podsHeard
	}
	return c.version <= max(a.nodesHeard, a.podsHeard)
}

func (a *arranger) happens(c *change) {
	kind := log.Apply
	if c.gone {
		kind = log.Delete
	}
	switch o := c.object.(type) {
	case *v1.Node:
		a.stale = true
		if c.gone {
			a.order.Remove(o.Name)
		} else {
			a.order.Set(o)
		}
	case *v1.Pod:
		if !a.matters(o, c.gone) {
			return
		}
	}
	a.ops = append(a.ops, log.Op{Kind: kind, Object: c.object})
}

// matters says whether a change of a pod is news to whoever decides: that it waits
// for a node is not.
func (a *arranger) matters(pod *v1.Pod, gone bool) bool {
	if a.placed[pod.UID] && pod.Spec.NodeName == "" && !gone {
		return false // it was decided about already
	}
	if a.told[pod.UID] {
		return true
	}
	a.told[pod.UID] = !gone && (pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "")
	return a.told[pod.UID]
}

// decide writes a decision: to be decided again, or as something that is so.
func (a *arranger) decide(d *decided, again bool) {
	if a.stale {
		a.sum, a.stale = a.order.Sum(), false
	}
	a.told[d.pod.UID], a.placed[d.pod.UID] = true, true
	if again && a.sum != d.Walk.Order {
		again = false
		a.unordered++
	}
	if again && d.Profile == a.profile && d.Hash == a.hash {
		a.again++
		a.ops = append(a.ops, log.Op{Kind: log.Schedule, Object: d.pod, Start: ptr.To(d.Walk.Start)})
		return
	}
	a.taken++
	placed := d.pod.DeepCopy()
	placed.Spec.NodeName = d.Node
	a.ops = append(a.ops, log.Op{Kind: log.Apply, Object: placed})
}

// versionOf is an object's resource version; 0 for what is no number.
func versionOf(o state.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}
