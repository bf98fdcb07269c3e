package cycle

import "github.com/berthdev/berth/scheduler/framework"

// judge finds the verdicts of nodes, and changes the order of slots. It reports
// false when a plugin failed: then some are not known.
func (s *sheet) judge(a *attempt, slots []framework.Slot) bool {
	a.stats.Judged += uint64(len(slots))
	fit, ok := s.filter(a, slots)
	if !ok {
		return false
	}
	a.rank.raw, a.sums = sized(a.rank.raw, len(fit)), sized(a.sums, len(fit))
	clear(a.sums)
	for i := range s.forms.LastingScores {
		if !s.score(a, &s.forms.LastingScores[i], fit) {
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
func (s *sheet) filter(a *attempt, slots []framework.Slot) (fit []framework.Slot, ok bool) {
	a.refusals, a.sums = sized(a.refusals, len(slots)), sized(a.sums, len(slots))
	any := false
	for i := range s.forms.LastingFilters {
		form := &s.forms.LastingFilters[i]
		if form.Idle() {
			continue
		}
		a.framework.AskFilter(a.State, form, slots, a.refusals)
		for n, refusal := range a.refusals {
			if refusal == framework.Fits {
				continue
			}
			if refusal == framework.Broken {
				return nil, false
			}
			if !any {
				any = true
				clear(a.sums)
			}
			// The first form that refuses decides.
			if a.sums[n].fits() {
				a.sums[n] = refusedBy(form.Place, refusal)
			}
		}
	}
	if !any {
		return slots, true
	}
	fit = slots[:0]
	for n, slot := range slots {
		if v := a.sums[n]; v.fits() {
			fit = append(fit, slot)
		} else {
			s.entries[slot] = entry{a.snapshot.Columns().Versions[slot], v}
		}
	}
	return fit, true
}

// score adds the scores of nodes by one lasting form to the sums, or keeps them
// where they have to be normalised.
func (s *sheet) score(a *attempt, form *framework.ClassScore, slots []framework.Slot) bool {
	row := s.raws[form.Place]
	if form.Normal != nil && row == nil && form.Idle() {
		return true
	}
	raw := a.rank.raw
	if a.framework.AskScore(a.State, form, slots, raw) != framework.Scored {
		return false
	}
	if form.Normal == nil {
		for i := range slots {
			a.sums[i] += verdict(form.Weight * raw[i])
		}
		return true
	}
	for i, slot := range slots {
		if raw[i] != 0 && row == nil {
			row = s.row(a.Memo, form.Place)
		}
		if row != nil {
			row[slot] = raw[i]
		}
	}
	return true
}
