package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var (
	_ podclass.BatchScorePlugin      = (*Plugin)(nil)
	_ podclass.IncrementalBatchScore = (*batchScore)(nil)
)

// BatchScore returns the batch form of Score for pods of the same class as pod.
func (p *Plugin) BatchScore(_ fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	incremental, ok := p.counts.(counts.Incremental)
	constraints, err := p.constraintsOf(pod, v1.ScheduleAnyway)
	switch {
	case !ok || err != nil:
		return nil, false
	case len(constraints) == 0:
		return nil, true
	}
	required := p.requiredLabels(pod, constraints)
	scopes := scopesOf(pod, constraints, required)
	batch := &batchScore{requireAllLabels: required != nil}
	for i, c := range constraints {
		soft := softConstraint{nodeDomains: columns.Domains(c.topologyKey, false), maxSkew: int64(c.maxSkew)}
		if soft.nodeDomains == nil {
			return nil, false
		}
		if c.topologyKey == v1.LabelHostname {
			soft.nodeCounts = incremental.ByNode(c.podSet(pod))
		} else {
			query := counts.PodQuery{TopologyKey: c.topologyKey, Pods: c.podSet(pod), Scope: scopes[i], IncludeUnlabelled: required == nil}
			parts := incremental.Pods(query)[0].Terms()
			if len(parts) != 1 {
				return nil, false
			}
			soft.domainCounts = parts[0].DomainValues
		}
		batch.constraints = append(batch.constraints, soft)
	}
	batch.table = newScoreTable(batch.constraints)
	return batch, true
}

// batchScore is the batch form of Score.
type batchScore struct {
	constraints []softConstraint
	// requireAllLabels gives no score to nodes that lack the label of a constraint.
	requireAllLabels bool
	// ignored marks the nodes of the last call that lack a label; noneIgnored is true
	// when there was none.
	ignored     []bool
	noneIgnored bool
	// table caches scores; nil when the constraints do not allow it.
	table      *scoreTable
	normalized normalizeTable
}

// softConstraint is a soft constraint with its counts.
type softConstraint struct {
	// nodeDomains are the domains of the nodes that have the label.
	nodeDomains *counts.Domains
	// domainCounts are counts by domain. For kubernetes.io/hostname, where each node is
	// a domain, nodeCounts are used instead: counts by slot.
	domainCounts *counts.DomainValues
	nodeCounts   *counts.NodeCounts
	maxSkew      int64
	weight       float64
	lastSeen     []uint32 // by domain: the call in which it was seen last
	call         uint32
}

// Score weights each constraint by the number of domains among the slots, and then
// scores each slot by the counts of its domains.
func (f *batchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	if !f.Current() {
		return podclass.ScoreFailed
	}
	scored := f.markIgnored(slots)
	for i := range f.constraints {
		f.constraints[i].setWeight(slots, f, scored)
	}
	if f.noneIgnored && f.table != nil {
		f.table.fill(f, slots, scores)
		return podclass.Scored
	}
	for i, slot := range slots {
		if scores[i] = 0; f.noneIgnored || !f.ignored[i] {
			scores[i] = f.scoreNode(slot)
		}
	}
	return podclass.Scored
}

// scoreNode returns the score of one node.
func (f *batchScore) scoreNode(slot counts.Slot) int64 {
	var score float64
	for r := range f.constraints {
		if soft := &f.constraints[r]; soft.nodeDomains.BySlot()[slot] != counts.NoDomain {
			score += scoreForCount(soft.count(slot), int32(soft.maxSkew), soft.weight)
		}
	}
	return int64(math.Round(score))
}

// markIgnored marks the nodes that lack a label, and returns the number of the others.
func (f *batchScore) markIgnored(slots []counts.Slot) int {
	f.noneIgnored = true
	if !f.requireAllLabels {
		return len(slots)
	}
	f.ignored = append(f.ignored[:0], make([]bool, len(slots))...)
	numIgnored := 0
	for i, slot := range slots {
		for r := range f.constraints {
			if f.constraints[r].nodeDomains.BySlot()[slot] == counts.NoDomain {
				f.ignored[i], f.noneIgnored = true, false
				numIgnored++
				break
			}
		}
	}
	return len(slots) - numIgnored
}

// Current reports whether the counts are still maintained.
func (f *batchScore) Current() bool {
	for i := range f.constraints {
		if !f.constraints[i].isCurrent() {
			return false
		}
	}
	return true
}

// isCurrent reports whether the counts of the constraint are still maintained.
func (r *softConstraint) isCurrent() bool {
	if !r.nodeDomains.Current() {
		return false
	}
	if r.nodeCounts != nil {
		return r.nodeCounts.Current()
	}
	return r.domainCounts.Current()
}

// setWeight sets the weight by the number of domains that the nodes are in.
func (r *softConstraint) setWeight(slots []counts.Slot, f *batchScore, scored int) {
	if r.nodeCounts != nil {
		r.weight = topologyNormalizingWeight(scored)
		return
	}
	if r.call++; r.call == 0 || len(r.lastSeen) < r.domainCounts.Domains.Len() {
		r.lastSeen, r.call = make([]uint32, r.domainCounts.Domains.Len()), 1
	}
	domainBySlot, domains, present := r.domainCounts.Domains.BySlot(), 0, r.domainCounts.Domains.NumWithNodes()
	for i, slot := range slots {
		if domains == present {
			break
		}
		if domain := domainBySlot[slot]; r.lastSeen[domain] != r.call && (f.noneIgnored || !f.ignored[i]) {
			r.lastSeen[domain] = r.call
			domains++
		}
	}
	r.weight = topologyNormalizingWeight(domains)
}

// count returns the number of pods in the domain of the node in slot.
func (r *softConstraint) count(slot counts.Slot) int64 {
	if r.nodeCounts != nil {
		if int(slot) < len(r.nodeCounts.BySlot) {
			return int64(r.nodeCounts.BySlot[slot])
		}
		return 0
	}
	if domain, by := r.domainCounts.Domains.BySlot()[slot], r.domainCounts.Values(); int(domain) < len(by) {
		return by[domain]
	}
	return 0
}

// Normalize is the batch form of NormalizeScore.
func (f *batchScore) Normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if f.noneIgnored || !f.ignored[i] {
			least, most = min(least, score), max(most, score)
		}
	}
	f.normalized.reset(least, most)
	if f.noneIgnored {
		f.normalized.normalizeAll(scores)
		return
	}
	for i, score := range scores {
		if scores[i] = 0; !f.ignored[i] {
			scores[i] = f.normalized.normalize(score)
		}
	}
}
