package decision

import (
	"testing"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestAProfileThatIsCreatedAgainHasNewTotals(t *testing.T) {
	l := NewLedger(time.Now)
	l.Open("p", "1")
	l.Record(Decision{Profile: "p", Result: v1alpha1.ResultBound})
	l.Open("p", "2")
	if history, _ := l.History("p", 1); history.UID != "2" || history.Totals.Bound != 0 || len(history.Recent) != 0 {
		t.Errorf("%+v, want the empty history of UID 2", history)
	}
	if l.Restore("p", "1", PublishedHistory{Totals: Totals{Bound: 1}}) {
		t.Error("the counts of the deleted profile are restored")
	}
}

// A bind, an eviction or the write of an explanation may end after its profile was
// deleted.
func TestTheLedgerKeepsNothingOfAClosedProfile(t *testing.T) {
	for name, late := range map[string]func(*Ledger){
		"a decision":                           func(l *Ledger) { l.Record(Decision{Profile: "p", Result: v1alpha1.ResultBound}) },
		"an eviction":                          func(l *Ledger) { l.Evicted("p", 1) },
		"an explanation that was not written":  func(l *Ledger) { l.Dropped("p") },
		"a decision of a profile never opened": func(l *Ledger) { l.Record(Decision{Profile: "q", Result: v1alpha1.ResultBound}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(time.Now)
			l.Open("p", "1")
			l.Close("p")
			late(l)
			for name := range l.profiles {
				t.Errorf("profile %s is kept", name)
			}
			select {
			case <-l.Changed():
				t.Error("the publisher is notified without a change")
			default:
			}
			l.Open("p", "1")
			l.Record(Decision{Profile: "p", Result: v1alpha1.ResultBound})
			if history, _ := l.History("p", 1); history.Totals.Bound != 1 || history.Totals.Victims != 0 || history.Totals.DecisionsDropped != 0 {
				t.Errorf("the totals of a new profile of that name are %+v, want one bound pod only", history.Totals)
			}
		})
	}
}
