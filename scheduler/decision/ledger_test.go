package decision

import (
	"testing"
	"time"
)

// A bind may end after its profile was deleted, and so may an eviction, and the
// write of an explanation.
func TestTheLedgerKeepsNothingOfAClosedProfile(t *testing.T) {
	for sentence, late := range map[string]func(*Ledger){
		"a decision":                           func(l *Ledger) { l.Record(Decision{Profile: "p", Result: Bound}) },
		"an eviction":                          func(l *Ledger) { l.Evicted("p", 1) },
		"an explanation that was not written":  func(l *Ledger) { l.Dropped("p") },
		"a decision of a profile never opened": func(l *Ledger) { l.Record(Decision{Profile: "q", Result: Bound}) },
	} {
		t.Run(sentence, func(t *testing.T) {
			l := NewLedger(time.Now)
			l.Open("p")
			l.Close("p")
			late(l)
			for name := range l.profiles {
				t.Errorf("a page of profile %s is kept", name)
			}
			select {
			case <-l.Changed():
				t.Error("the publisher is woken, and has nothing to publish")
			default:
			}
			l.Open("p")
			l.Record(Decision{Profile: "p", Result: Bound})
			if page, _ := l.History("p", 1); page.Totals.Bound != 1 || page.Totals.Victims != 0 || page.Totals.DecisionsDropped != 0 {
				t.Errorf("when a profile of that name comes back, its totals are %+v, want one bound pod alone", page.Totals)
			}
		})
	}
}
