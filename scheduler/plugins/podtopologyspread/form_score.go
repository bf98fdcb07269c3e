package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.ScoreBatcher  = (*Plugin)(nil)
	_ framework.KeptScoreForm = (*scoreForm)(nil)
)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) ScoreForm(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	counts, kept := p.counts.(framework.KeptCounts)
	constraints, err := p.constraintsOf(pod, v1.ScheduleAnyway)
	switch {
	case !kept || err != nil:
		return nil, false
	case len(constraints) == 0:
		return nil, true
	}
	required := p.required(pod, constraints)
	limits := scopes(pod, constraints, required)
	form := &scoreForm{required: required != nil}
	for i, c := range constraints {
		rule := softRule{labelled: columns.Domains(c.key, false), spare: int64(c.maxSkew)}
		if rule.labelled == nil {
			return nil, false
		}
		if c.key == v1.LabelHostname {
			rule.nodes = counts.ByNode(c.pods(pod))
		} else {
			query := framework.PodQuery{TopologyKey: c.key, Pods: c.pods(pod), Scope: limits[i], Unlabelled: required == nil}
			parts := counts.Pods(query)[0].Counted()
			if len(parts) != 1 {
				return nil, false
			}
			rule.numbers = parts[0].Numbers
		}
		form.rules = append(form.rules, rule)
	}
	form.table = tableOf(form.rules)
	return form, true
}

// scoreForm is soft for many nodes.
type scoreForm struct {
	rules []softRule
	// required says that nodes without one of the labels count for nothing.
	required bool
	// ignored marks those of the last call; none says that there were none.
	ignored []bool
	none    bool
	// table is nil where the rules are too many for one.
	table *crowdTable
	turns turnTable
}

// softRule is one constraint.
type softRule struct {
	// labelled are the domains of the nodes that have the label.
	labelled *framework.Domains
	// numbers are by domain, nodes by slot where each host is a domain.
	numbers *framework.Numbers
	nodes   *framework.NodeNumbers
	spare   int64 // maxSkew
	weight  float64
	seen    []uint32 // by domain: the call in which it was seen last
	call    uint32
}

// Score counts the domains that the nodes are in, and then what is in them.
func (f *scoreForm) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	if !f.Current() {
		return framework.ScoringBroken
	}
	scored := f.ignore(slots)
	for i := range f.rules {
		f.rules[i].weigh(slots, f, scored)
	}
	if f.none && f.table != nil {
		f.table.fill(f, slots, scores)
		return framework.Scored
	}
	for i, slot := range slots {
		if scores[i] = 0; f.none || !f.ignored[i] {
			scores[i] = f.crowd(slot)
		}
	}
	return framework.Scored
}

// crowd is the score of one node.
func (f *scoreForm) crowd(slot framework.Slot) int64 {
	var score float64
	for r := range f.rules {
		if rule := &f.rules[r]; rule.labelled.Of()[slot] != framework.NoDomain {
			score += crowd(rule.at(slot), int32(rule.spare), rule.weight)
		}
	}
	return int64(math.Round(score))
}

// ignore notes which nodes lack a label, and returns how many do not.
func (f *scoreForm) ignore(slots []framework.Slot) int {
	f.none = true
	if !f.required {
		return len(slots)
	}
	f.ignored = append(f.ignored[:0], make([]bool, len(slots))...)
	lacking := 0
	for i, slot := range slots {
		for r := range f.rules {
			if f.rules[r].labelled.Of()[slot] == framework.NoDomain {
				f.ignored[i], f.none = true, false
				lacking++
				break
			}
		}
	}
	return len(slots) - lacking
}

// Current reports whether the counts still move with the snapshot.
func (f *scoreForm) Current() bool {
	for i := range f.rules {
		if !f.rules[i].current() {
			return false
		}
	}
	return true
}

// current reports whether what the rule reads still moves with the snapshot.
func (r *softRule) current() bool {
	if !r.labelled.Current() {
		return false
	}
	if r.nodes != nil {
		return r.nodes.Current()
	}
	return r.numbers.Current()
}

// weigh sets the weight by the number of domains that the nodes are in.
func (r *softRule) weigh(slots []framework.Slot, f *scoreForm, scored int) {
	if r.nodes != nil {
		r.weight = domainWeight(scored)
		return
	}
	if r.call++; r.call == 0 || len(r.seen) < r.numbers.Domains.Len() {
		r.seen, r.call = make([]uint32, r.numbers.Domains.Len()), 1
	}
	of, domains, present := r.numbers.Domains.Of(), 0, r.numbers.Domains.Present()
	for i, slot := range slots {
		if domains == present {
			break
		}
		if domain := of[slot]; r.seen[domain] != r.call && (f.none || !f.ignored[i]) {
			r.seen[domain] = r.call
			domains++
		}
	}
	r.weight = domainWeight(domains)
}

// at is the number of pods in the domain of the node in slot.
func (r *softRule) at(slot framework.Slot) int64 {
	if r.nodes != nil {
		if int(slot) < len(r.nodes.By) {
			return int64(r.nodes.By[slot])
		}
		return 0
	}
	if domain, by := r.numbers.Domains.Of()[slot], r.numbers.By(); int(domain) < len(by) {
		return by[domain]
	}
	return 0
}

// Normalize is NormalizeScore.
func (f *scoreForm) Normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if f.none || !f.ignored[i] {
			least, most = min(least, score), max(most, score)
		}
	}
	f.turns.begin(least, most)
	for i, score := range scores {
		if scores[i] = 0; f.none || !f.ignored[i] {
			scores[i] = f.turns.of(score)
		}
	}
}
