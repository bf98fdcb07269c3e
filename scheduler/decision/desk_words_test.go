package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// counter is a desk at noon, and who was dropped from it.
type queueTest struct {
	*ExplanationQueue
	t       *testing.T
	time    time.Time
	dropped []string
}

func newQueueTest(t *testing.T) *queueTest {
	c := &queueTest{t: t, time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.ExplanationQueue = NewExplanationQueue(func() time.Time { return c.time })
	c.OnDropped(func(profile string) { c.dropped = append(c.dropped, profile) })
	return c
}

// says is an explanation of a pod, whose UID is its name, for one reason.
func explanationOf(pod, reason string, edits ...func(*Explanation)) Explanation {
	e := Explanation{Namespace: "shop", Pod: pod, UID: types.UID(pod), Status: Status{
		Result:     v1alpha1.ResultUnschedulable,
		Profile:    v1alpha1.DecidedBy{Name: "batch", Hash: "9f3c1a2b4d"},
		Rejections: []Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: reason, Nodes: 3}},
		Queue:      &Queue{Where: "Unschedulable"},
	}}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

func withUID(uid types.UID) func(*Explanation) { return func(e *Explanation) { e.UID = uid } }

func asBound(e *Explanation) { e.Status.Result, e.Status.Rejections = v1alpha1.ResultBound, nil }

// pass lets time pass.
func (c *queueTest) advance(d time.Duration) { c.time = c.time.Add(d) }

// errands takes and does all that is due now, and says what that was.
func (c *queueTest) doTasks() (done []string) {
	for {
		e, _, ok := c.Take()
		if !ok {
			return done
		}
		done = append(done, c.doTask(e))
	}
}

// do ends an errand well, and says what it was.
func (c *queueTest) doTask(e Task) string {
	if e.Verb == Delete {
		c.Deleted(e)
		return fmt.Sprintf("delete %s of %s", e.Pod, e.UID)
	}
	c.Written(e, "object-of-"+e.UID)
	text := string(e.Explanation.Status.Result)
	if r := e.Explanation.Status.Rejections; len(r) > 0 {
		text = r[0].Reason
	}
	return fmt.Sprintf("%s %s of %s: %s", e.Verb, e.Pod, e.UID, text)
}

func (c *queueTest) want(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.doTasks()); diff != "" {
		c.t.Errorf("what is done (-want +got):\n%s", diff)
	}
}
