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

func TestDesk(t *testing.T) {
	for sentence, play := range map[string]func(c *counter){
		"the first explanation is written at once, and the same reasons are not written again": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.want("create web of web: cpu")
			c.pass(time.Hour)
			c.Put(says("web", "cpu", func(e *Explanation) { e.Status.Rejections[0].Nodes = 4 }))
			c.want()
		},
		"other reasons are written a minute after the ones before": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.want("create web of web: cpu")
			c.pass(updateEvery - time.Second)
			c.Put(says("web", "memory"))
			c.want()
			c.pass(time.Second)
			c.want("update web of web: memory")
		},
		"of several explanations that wait the last is written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Put(says("db", "cpu"))
			c.Put(says("web", "memory"))
			c.want("create web of web: memory", "create db of db: cpu")
		},
		"reasons that are again what the object says are not written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("web", "memory"))
			c.Put(says("web", "cpu"))
			c.pass(updateEvery)
			c.want()
		},
		"who was not explained yet goes before updates, and those before records": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("job", "", placed))
			c.Put(says("web", "memory"))
			c.Put(says("db", "cpu"))
			c.want("create db of db: cpu", "update web of web: memory", "create job of job: Bound")
		},
		"deletions take every other turn": func(c *counter) {
			for _, pod := range []string{"a", "b", "c"} {
				c.Put(says(pod, "cpu"))
			}
			c.errands()
			for _, pod := range []string{"a", "b", "c"} {
				c.Gone("shop", pod, types.UID(pod))
				c.Put(says(pod+"2", "cpu"))
			}
			c.want("delete a of a", "create a2 of a2: cpu", "delete b of b", "create b2 of b2: cpu", "delete c of c", "create c2 of c2: cpu")
		},
		"a pod that is bound is explained no more, and what stands goes a minute later": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("web", "memory"))
			c.Put(says("db", "cpu"))
			c.Bound("shop", "web", "web")
			c.Bound("shop", "db", "db")
			c.Put(says("web", "late"))
			c.pass(leaveAfter - time.Second)
			c.want()
			c.pass(time.Second)
			c.want("delete web of web")
		},
		"a pod that is gone is forgotten, and what stands goes at once": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("db", "cpu"))
			c.Gone("shop", "db", "db")
			c.Gone("shop", "web", "web")
			c.Put(says("web", "late"))
			c.want("delete web of web")
		},
		"a bound pod is recorded, and not for longer than a minute": func(c *counter) {
			c.Bound("shop", "web", "web")
			c.Put(says("web", "", placed))
			c.want("create web of web: Bound")
			c.pass(leaveAfter)
			c.want("delete web of web")
		},
		"a record that has no turn in its minute is dropped, and counted": func(c *counter) {
			c.Put(says("web", "", placed))
			c.pass(leaveAfter)
			c.want()
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"a pod's namesake has its object replaced, whether the first is known to be gone or not": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Put(says("db", "cpu"))
			c.errands()
			c.Gone("shop", "db", "db")
			c.Put(says("web", "cpu", of("web-2")))
			c.Put(says("db", "cpu", of("db-2")))
			c.Gone("shop", "web", "web")
			c.want("replace web of web-2: cpu", "replace db of db-2: cpu")
		},
		"a pod that is gone while it is written is deleted when that is done": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Gone("shop", "web", "web")
			c.do(e)
			c.want("delete web of web")
		},
		"what is put while it is written is an update": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(says("web", "memory"))
			c.do(e)
			c.want()
			c.pass(updateEvery)
			c.want("update web of web: memory")
		},
		"what is put while something else is written is written after it": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("web", "memory"))
			e, _, _ := c.Take()
			c.Put(says("web", "cpu"))
			c.do(e)
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
		"what failed is done again, and what may have been done is looked at": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Again(e, c.time.Add(time.Second), true)
			c.want()
			c.Gone("shop", "web", "web")
			c.want("delete web of ")
		},
		"what failed yields to what is newer": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(says("web", "memory"))
			c.Again(e, c.time, false)
			c.want("create web of web: memory")
		},
		"an update that may have been made is made again, whatever it says": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("web", "memory"))
			e, _, _ := c.Take()
			c.Again(e, c.time, true)
			c.Put(says("web", "cpu"))
			c.want("update web of web: cpu")
		},
		"what is refused is counted, and tried again with other reasons only": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Refused(e)
			c.Put(says("web", "cpu"))
			c.want()
			c.Put(says("web", "memory"))
			c.want("create web of web: memory")
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"an errand about a pod that turned out to be gone is no errand": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Moot(e, false)
			c.want()
		},
		"what stood before is updated, a minute after it was written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Written: c.time})
			c.want()
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
		"what stood before goes when its pod is gone, or a minute after that was bound": func(c *counter) {
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", Stale: true})
			c.Found(Standing{Namespace: "shop", Pod: "db", Owner: "db", Object: "o", Bound: c.time.Add(-leaveAfter / 2)})
			c.want("delete web of old")
			c.pass(leaveAfter / 2)
			c.want("delete db of db")
		},
		"what stood before of a pod's namesake is replaced": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", Stale: true})
			c.want("replace web of web: cpu")
		},
		"a pod that was taken for gone and is not keeps its explanation": func(c *counter) {
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Written: c.time, Stale: true})
			c.Put(says("web", "cpu"))
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
	} {
		t.Run(sentence, func(t *testing.T) { play(newCounter(t)) })
	}
}

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
	if c.Fresh(types.UID(last), says(last, "cpu")) {
		t.Error("a pod without room would be written")
	}
	if !c.Fresh("web-0", says("web-0", "memory")) {
		t.Error("a pod that waits already needs no room for other reasons")
	}
	c.errands()
	if !c.Fresh(types.UID(last), says(last, "cpu")) {
		t.Error("a pod that was dropped is not welcome later")
	}
}

func TestReasonsAreAllButCountsNodesAndTimes(t *testing.T) {
	base := says("web", "cpu", func(e *Explanation) {
		e.Status.Rejections = append(e.Status.Rejections, Rejection{Plugin: "TaintToleration", Code: "Unschedulable", Reason: "tainted", Nodes: 2})
		e.Status.Preemption = &Preemption{Outcome: v1alpha1.PreemptionNoCandidates}
	})
	for sentence, tc := range map[string]struct {
		change func(*Status)
		fresh  bool
	}{
		"the result":       {func(s *Status) { s.Result = v1alpha1.ResultError }, true},
		"the hash":         {func(s *Status) { s.Profile.Hash = "other" }, true},
		"a plugin":         {func(s *Status) { s.Rejections[0].Plugin = "Other" }, true},
		"a code":           {func(s *Status) { s.Rejections[0].Code = "Pending" }, true},
		"a reason":         {func(s *Status) { s.Rejections[0].Reason = "memory" }, true},
		"one reason less":  {func(s *Status) { s.Rejections = s.Rejections[:1] }, true},
		"the gate":         {func(s *Status) { s.Queue.Gate = "SchedulingGates" }, true},
		"where it waits":   {func(s *Status) { s.Queue.Where = "Backoff" }, true},
		"the outcome":      {func(s *Status) { s.Preemption.Outcome = v1alpha1.PreemptionUnderWay }, true},
		"a count":          {func(s *Status) { s.Rejections[0].Nodes++; s.Message = "0/4" }, false},
		"an example":       {func(s *Status) { s.Rejections[0].ExampleNode = "n7" }, false},
		"their order":      {func(s *Status) { s.Rejections[0], s.Rejections[1] = s.Rejections[1], s.Rejections[0] }, false},
		"since when":       {func(s *Status) { s.Queue.Since.Time = s.Queue.Since.Add(time.Hour) }, false},
		"what is nearest":  {func(s *Status) { s.Nearest = []NearMiss{{Node: "n1"}} }, false},
		"the number found": {func(s *Status) { s.Preemption.Candidates++ }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newCounter(t)
			c.Put(base)
			other := base
			other.Status = *base.Status.DeepCopy()
			tc.change(&other.Status)
			if got := c.Fresh(base.UID, other); got != tc.fresh {
				t.Errorf("fresh: %t, want %t", got, tc.fresh)
			}
		})
	}
	t.Run("the message, where nothing was asked", func(t *testing.T) {
		c := newCounter(t)
		held := func(message string) Explanation {
			return says("web", "", func(e *Explanation) { e.Status.Rejections, e.Status.Message = nil, message })
		}
		c.Put(held("the profile is paused"))
		if !c.Fresh("web", held("the profile is deleted")) {
			t.Error("another message is not fresh")
		}
	})
}
