package decision

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestExplanationQueueForgetsPodsThatAreBoundOrDeleted(t *testing.T) {
	c := newQueueTest(t)
	for i := range 100 {
		pod := fmt.Sprint("web-", i)
		c.Put(explanationOf(pod, "cpu"))
		if i%2 == 0 {
			c.doTasks()
		}
		if i%3 == 0 {
			c.PodBound("shop", pod, types.UID(pod))
		} else {
			c.PodDeleted("shop", pod, types.UID(pod))
		}
	}
	c.doTasks()
	c.advance(boundRetention)
	c.doTasks()
	if len(c.records) != 0 || c.len() != 0 {
		t.Errorf("%d slips and %d tickets are left", len(c.records), c.len())
	}
}

func TestExplanationQueueIsBounded(t *testing.T) {
	c := newQueueTest(t)
	const more = 5
	for i := range capacity[firstItems] + more {
		c.Put(explanationOf(fmt.Sprint("web-", i), "cpu"))
	}
	if len(c.dropped) != more || len(c.records) != capacity[firstItems] {
		t.Errorf("%d dropped, %d kept; want %d, %d", len(c.dropped), len(c.records), more, capacity[firstItems])
	}
	last := fmt.Sprint("web-", capacity[firstItems])
	if c.WouldWrite(explanationOf(last, "cpu")) {
		t.Error("a pod without room would be written")
	}
	if !c.WouldWrite(explanationOf("web-0", "memory")) {
		t.Error("a pod that waits already needs no room for other reasons")
	}
	c.doTasks()
	if !c.WouldWrite(explanationOf(last, "cpu")) {
		t.Error("a pod that was dropped is not welcome later")
	}
}

func TestDroppedExplanationsAreCountedInTheLedger(t *testing.T) {
	ledger := NewLedger(time.Now)
	ledger.Open("batch")
	c := newQueueTest(t)
	c.OnDropped(ledger.Dropped)
	for range 2 {
		c.Put(explanationOf("web", "", asBound))
		c.advance(boundRetention)
		c.doTasks()
	}
	c.Put(explanationOf("web", "", asBound, func(e *Explanation) { e.Status.Profile.Name = "deleted" }))
	c.advance(boundRetention)
	c.doTasks()
	if page, _ := ledger.History("batch", 0); page.Totals.DecisionsDropped != 2 {
		t.Errorf("%d decisions dropped, want 2", page.Totals.DecisionsDropped)
	}
	if _, known := ledger.History("deleted", 0); known {
		t.Error("the ledger opened a page for a profile that is gone")
	}
}
