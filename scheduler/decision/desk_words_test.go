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
type counter struct {
	*Desk
	t       *testing.T
	time    time.Time
	dropped []string
}

func newCounter(t *testing.T) *counter {
	c := &counter{t: t, time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.Desk = NewDesk(func() time.Time { return c.time })
	c.CountDroppedWith(func(profile string) { c.dropped = append(c.dropped, profile) })
	return c
}

// says is an explanation of a pod, whose UID is its name, for one reason.
func says(pod, reason string, edits ...func(*Explanation)) Explanation {
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

func of(uid types.UID) func(*Explanation) { return func(e *Explanation) { e.UID = uid } }

func placed(e *Explanation) { e.Status.Result, e.Status.Rejections = v1alpha1.ResultBound, nil }

// pass lets time pass.
func (c *counter) pass(d time.Duration) { c.time = c.time.Add(d) }

// errands takes and does all that is due now, and says what that was.
func (c *counter) errands() (done []string) {
	for {
		e, _, ok := c.Take()
		if !ok {
			return done
		}
		done = append(done, c.do(e))
	}
}

// do ends an errand well, and says what it was.
func (c *counter) do(e Errand) string {
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

func (c *counter) want(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.errands()); diff != "" {
		c.t.Errorf("what is done (-want +got):\n%s", diff)
	}
}
