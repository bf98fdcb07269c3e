package decision

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestDeskForgetsPodsThatAreBoundOrGone(t *testing.T) {
	c := newCounter(t)
	for i := range 100 {
		pod := fmt.Sprint("web-", i)
		c.Put(says(pod, "cpu"))
		if i%2 == 0 {
			c.errands()
		}
		if i%3 == 0 {
			c.Bound("shop", pod, types.UID(pod))
		} else {
			c.Gone("shop", pod, types.UID(pod))
		}
	}
	c.errands()
	c.pass(leaveAfter)
	c.errands()
	if len(c.slips) != 0 || c.len() != 0 {
		t.Errorf("%d slips and %d tickets are left", len(c.slips), c.len())
	}
}

func TestDeskIsBounded(t *testing.T) {
	c := newCounter(t)
	const more = 5
	for i := range room[firsts] + more {
		c.Put(says(fmt.Sprint("web-", i), "cpu"))
	}
	if len(c.dropped) != more || len(c.slips) != room[firsts] {
		t.Errorf("%d dropped, %d kept; want %d, %d", len(c.dropped), len(c.slips), more, room[firsts])
	}
	last := fmt.Sprint("web-", room[firsts])
	if c.Fresh(says(last, "cpu")) {
		t.Error("a pod without room would be written")
	}
	if !c.Fresh(says("web-0", "memory")) {
		t.Error("a pod that waits already needs no room for other reasons")
	}
	c.errands()
	if !c.Fresh(says(last, "cpu")) {
		t.Error("a pod that was dropped is not welcome later")
	}
}

func TestWhatIsDroppedShowsInTheLedger(t *testing.T) {
	ledger := NewLedger(time.Now)
	ledger.Open("batch")
	c := newCounter(t)
	c.CountDroppedWith(ledger.Dropped)
	for range 2 {
		c.Put(says("web", "", placed))
		c.pass(leaveAfter)
		c.errands()
	}
	c.Put(says("web", "", placed, func(e *Explanation) { e.Status.Profile.Name = "deleted" }))
	c.pass(leaveAfter)
	c.errands()
	if page, _ := ledger.Page("batch", 0); page.Totals.DecisionsDropped != 2 {
		t.Errorf("%d decisions dropped, want 2", page.Totals.DecisionsDropped)
	}
	if _, known := ledger.Page("deleted", 0); known {
		t.Error("the ledger opened a page for a profile that is gone")
	}
}
