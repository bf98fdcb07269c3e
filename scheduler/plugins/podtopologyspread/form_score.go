package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.BatchScorePlugin      = (*Plugin)(nil)
	_ framework.IncrementalBatchScore = (*batchScore)(nil)
)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) BatchScore(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	counts, kept := p.counts.(framework.IncrementalCounts)
	constraints, err := p.constraintsOf(pod, v1.ScheduleAnyway)
	switch {
	case !kept || err != nil:
		return nil, false
	case len(constraints) == 0:
		return nil, true
	}
	required := p.requiredLabels(pod, constraints)
	limits := scopesOf(pod, constraints, required)
	form := &batchScore{requireAllLabels: required != nil}
	for i, c := range constraints {
		rule := softConstraint{nodeDomains: columns.Domains(c.topologyKey, false), maxSkew: int64(c.maxSkew)}
		if rule.nodeDomains == nil {
			return nil, false
		}
		if c.topologyKey == v1.LabelHostname {
			rule.nodeCounts = counts.ByNode(c.podSet(pod))
		} else {
			query := framework.PodQuery{TopologyKey: c.topologyKey, Pods: c.podSet(pod), Scope: limits[i], IncludeUnlabelled: required == nil}
			parts := counts.Pods(query)[0].Terms()
			if len(parts) != 1 {
				return nil, false
			}
			rule.domainCounts = parts[0].DomainValues
		}
		form.constraints = append(form.constraints, rule)
	}
	form.table = newScoreTable(form.constraints)
	return form, true
}

// scoreForm is soft for many nodes.
type batchScore struct {
	constraints []softConstraint
	// required says that nodes without one of the labels count for nothing.
	requireAllLabels bool
	// ignored marks those of the last call; none says that there were none.
	ignored     []bool
	noneIgnored bool
	// table is nil where the rules are too many for one.
	table      *scoreTable
	normalized normalizeTable
}

// softRule is one constraint.
type softConstraint struct {
	// labelled are the domains of the nodes that have the label.
	nodeDomains *framework.Domains
	// numbers are by domain, nodes by slot where each host is a domain.
	domainCounts *framework.DomainValues
	nodeCounts   *framework.NodeCounts
	maxSkew      int64 // maxSkew
	weight       float64
	lastSeen     []uint32 // by domain: the call in which it was seen last
	call         uint32
}

// Score counts the domains that the nodes are in, and then what is in them.
func (f *batchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	if !f.Current() {
		return framework.ScoreFailed
	}
	scored := f.markIgnored(slots)
	for i := range f.constraints {
		f.constraints[i].setWeight(slots, f, scored)
	}
	if f.noneIgnored && f.table != nil {
		f.table.fill(f, slots, scores)
		return framework.Scored
	}
	for i, slot := range slots {
		if scores[i] = 0; f.noneIgnored || !f.ignored[i] {
			scores[i] = f.scoreNode(slot)
		}
	}
	return framework.Scored
}

// crowd is the score of one node.
func (f *batchScore) scoreNode(slot framework.Slot) int64 {
	var score float64
	for r := range f.constraints {
		if rule := &f.constraints[r]; rule.nodeDomains.BySlot()[slot] != framework.NoDomain {
			score += scoreForCount(rule.count(slot), int32(rule.maxSkew), rule.weight)
		}
	}
	return int64(math.Round(score))
}

// ignore notes which nodes lack a label, and returns how many do not.
func (f *batchScore) markIgnored(slots []framework.Slot) int {
	f.noneIgnored = true
	if !f.requireAllLabels {
		return len(slots)
	}
	f.ignored = append(f.ignored[:0], make([]bool, len(slots))...)
	lacking := 0
	for i, slot := range slots {
		for r := range f.constraints {
			if f.constraints[r].nodeDomains.BySlot()[slot] == framework.NoDomain {
				f.ignored[i], f.noneIgnored = true, false
				lacking++
				break
			}
		}
	}
	return len(slots) - lacking
}

// Current reports whether the counts still move with the snapshot.
func (f *batchScore) Current() bool {
	for i := range f.constraints {
		if !f.constraints[i].isCurrent() {
			return false
		}
	}
	return true
}

// current reports whether what the rule reads still moves with the snapshot.
func (r *softConstraint) isCurrent() bool {
	if !r.nodeDomains.Current() {
		return false
	}
	if r.nodeCounts != nil {
		return r.nodeCounts.Current()
	}
	return r.domainCounts.Current()
}

// weigh sets the weight by the number of domains that the nodes are in.
func (r *softConstraint) setWeight(slots []framework.Slot, f *batchScore, scored int) {
	if r.nodeCounts != nil {
		r.weight = topologyNormalizingWeight(scored)
		return
	}
	if r.call++; r.call == 0 || len(r.lastSeen) < r.domainCounts.Domains.Len() {
		r.lastSeen, r.call = make([]uint32, r.domainCounts.Domains.Len()), 1
	}
	of, domains, present := r.domainCounts.Domains.BySlot(), 0, r.domainCounts.Domains.NumWithNodes()
	for i, slot := range slots {
		if domains == present {
			break
		}
		if domain := of[slot]; r.lastSeen[domain] != r.call && (f.noneIgnored || !f.ignored[i]) {
			r.lastSeen[domain] = r.call
			domains++
		}
	}
	r.weight = topologyNormalizingWeight(domains)
}

// at is the number of pods in the domain of the node in slot.
func (r *softConstraint) count(slot framework.Slot) int64 {
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

// Normalize is NormalizeScore.
func (f *batchScore) Normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if f.noneIgnored || !f.ignored[i] {
			least, most = min(least, score), max(most, score)
		}
	}
	f.normalized.reset(least, most)
	for i, score := range scores {
		if scores[i] = 0; f.noneIgnored || !f.ignored[i] {
			scores[i] = f.normalized.normalize(score)
		}
	}
}
