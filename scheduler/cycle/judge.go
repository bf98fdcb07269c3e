package cycle

import "github.com/berthdev/berth/scheduler/framework"

// judge finds the verdicts of nodes, and changes the order of slots. It reports
// false when a plugin failed: then some are not known.
func (s *verdictTable) evaluate(a *attempt, slots []framework.Slot) bool {
	a.stats.Evaluated += uint64(len(slots))
	fit, ok := s.filter(a, slots)
	if !ok {
		return false
	}
	a.ranking.raw, a.sums = resize(a.ranking.raw, len(fit)), resize(a.sums, len(fit))
	clear(a.sums)
	for i := range s.forms.CacheableScores {
		if !s.score(a, &s.forms.CacheableScores[i], fit) {
			return false
		}
	}
	versions := a.snapshot.Columns().Versions
	for i, slot := range fit {
		s.entries[slot] = entry{versions[slot], a.sums[i]}
	}
	return true
}

// filter finds the verdicts of nodes that are refused, and returns the others. It
// is not ok when a plugin failed.
func (s *verdictTable) filter(a *attempt, slots []framework.Slot) (fit []framework.Slot, ok bool) {
	a.rejectionCodes, a.sums = resize(a.rejectionCodes, len(slots)), resize(a.sums, len(slots))
	any := false
	for i := range s.forms.CacheableFilters {
		form := &s.forms.CacheableFilters[i]
		if form.Idle() {
			continue
		}
		a.framework.RunBatchFilter(a.State, form, slots, a.rejectionCodes)
		for n, refusal := range a.rejectionCodes {
			if refusal == framework.NotRejected {
				continue
			}
			if refusal == framework.FilterFailed {
				return nil, false
			}
			if !any {
				any = true
				clear(a.sums)
			}
			// The first form that refuses decides.
			if a.sums[n].feasible() {
				a.sums[n] = rejectedBy(form.Index, refusal)
			}
		}
	}
	if !any {
		return slots, true
	}
	fit = slots[:0]
	for n, slot := range slots {
		if v := a.sums[n]; v.feasible() {
			fit = append(fit, slot)
		} else {
			s.entries[slot] = entry{a.snapshot.Columns().Versions[slot], v}
		}
	}
	return fit, true
}

// score adds the scores of nodes by one lasting form to the sums, or keeps them
// where they have to be normalised.
func (s *verdictTable) score(a *attempt, form *framework.ClassScore, slots []framework.Slot) bool {
	row := s.rawScores[form.Index]
	if form.Normalizer != nil && row == nil && form.Idle() {
		return true
	}
	raw := a.ranking.raw
	if a.framework.RunBatchScore(a.State, form, slots, raw) != framework.Scored {
		return false
	}
	if form.Normalizer == nil {
		for i := range slots {
			a.sums[i] += verdict(form.Weight * raw[i])
		}
		return true
	}
	for i, slot := range slots {
		if raw[i] != 0 && row == nil {
			row = s.rawScoreRow(a.EquivalenceCache, form.Index)
		}
		if row != nil {
			row[slot] = raw[i]
		}
	}
	return true
}
