package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/cells"
)

// A pod can be in any of twelve places when a change of its profile comes.
// Wherever it is, and whatever comes: it is bound once, by the generation that
// began it or else by the one that runs then; it keeps its attempts and its
// backoff; the change moves it on, if it touches what holds the pod, or else the
// event that it waits for, and no flush, which these profiles do not have; and
// nothing of it is left behind.
func TestEveryPlaceUnderEveryChange(t *testing.T) {
	for where, p := range cells.Places {
		for what, ch := range cells.Changes {
			t.Run("it is "+where+", and "+what, func(t *testing.T) {
				inTime(t, func(w *world) { newCell(w).play(newSpot(where, p), ch) }, node("n1"), home())
			})
		}
	}
}

// home is the namespace of all pods.
func home() *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web("a").Namespace}}
}

// cell is one pod in one place under one change.
type cell struct {
	*world
	desk
	cast
	// attempt is one that the test plays itself.
	attempt *queue.Attempt
	// free lets go who is stuck.
	free chan struct{}
	// ends ends the leadership; nil before it began.
	ends func()
}

func newCell(w *world) *cell {
	c := &cell{world: w, desk: newDesk(), free: make(chan struct{})}
	c.register(w.options.Registry)
	return c
}

func (c *cell) play(s spot, ch cells.Change) {
	defer func() {
		if c.ends != nil {
			c.ends()
		}
	}()
	if ch.First != nil {
		ch.First(user{c})
	}
	before := c.arrange(s)
	ch.Make(user{c})
	synctest.Wait()
	c.goOn(s)
	if reason := c.Holds(); reason != "" {
		c.wantHeld(s, reason)
		c.comeBack(ch.Same)
	} else if ch.Same || ch.Spares(s.Place) {
		c.want("the queue, where nothing changed for the pod", c.counts(), said(s.Rests))
		c.open()
		c.create(node("n2"))
	}
	if s.BacksOff {
		c.want("the queue while the pod backs off", c.counts(), "1 backoff")
		time.Sleep(time.Minute)
	}
	by := []stamp{c.runs}
	switch {
	case s.Begun:
		by = []stamp{before}
	case !s.unled:
		by = append(by, c.between...)
	}
	c.wantBound(by, s.Attempts)
	c.wantAsked(s.Begun || ch.Same)
	c.wantNothingLeft()
}

// arrange puts the pod into its place, and returns what runs then.
func (c *cell) arrange(s spot) stamp {
	c.put(s)
	user{c}.Edit(nil)
	c.early()
	if !s.unled {
		c.leads()
	}
	if !s.Unseen() {
		c.create(leaving())
	}
	// Between two ticks, at which a follower looks at the cluster: a pod that the
	// test pops is scheduled by the test, and nobody else may look then.
	time.Sleep(2500 * time.Millisecond)
	if s.pops {
		c.attempt = c.queue.TryPop()
	}
	c.want("the queue before", c.counts(), said(s.Where))
	return c.runs
}

// goOn lets the pod go on after the change.
func (c *cell) goOn(s spot) {
	if s.Unseen() {
		c.create(leaving())
	}
	c.letGo(s)
	if c.attempt != nil {
		c.schedule(c.ctx, c.attempt)
		synctest.Wait() // who begins to lead finds nothing under way
	}
	c.leads()
}

func (c *cell) leads() {
	if c.ends == nil {
		c.ends = c.lead()
	}
	synctest.Wait()
}

// wantHeld wants the pod to wait for its profile, and to say why, unless it was
// under way already.
func (c *cell) wantHeld(s spot, reason string) {
	counts, condition := "1 parked", "False "+reason
	switch {
	case s.Begun:
		counts, condition = "", "True"
	case s.Unseen() && c.Gone:
		// Nobody here knows it: it is told by unserved.
		counts, condition = "", ""
	}
	c.want("the queue while the profile is away", c.counts(), counts)
	told := c.scheduled("a")
	if len(told) > len(condition) && condition != "" {
		told = told[:len(condition)]
	}
	c.want("the condition while the profile is away", told, condition)
}

// comeBack ends what holds the pods. same says that what ran before runs on,
// and so has to change its mind.
func (c *cell) comeBack(same bool) {
	if same {
		c.open()
	}
	switch {
	case c.Gone:
		user{c}.Create(nil)
	case c.Forbidden:
		user{c}.Edit(cells.AllowAll)
		c.Forbidden = false
	}
	c.pause(false)
	synctest.Wait()
}

func (c *cell) mustNot(err error) {
	c.t.Helper()
	if err == nil {
		c.t.Error("the change was not refused")
	}
}

// wantAsked wants the plugins that heard of the binding to be of one
// generation: that which ran when the pod came to its place, or a later one.
func (c *cell) wantAsked(early bool) {
	var heard []*instance
	for _, p := range c.all() {
		switch n := count(p.Journal.Lines(), p.Called+".PostBind n"); {
		case n > 1:
			c.t.Errorf("%s heard %d times of the binding", p.Called, n)
		case n == 1:
			heard = append(heard, p)
		}
	}
	if len(heard) == 0 {
		c.t.Error("no plugin heard of the binding")
	}
	for _, p := range heard {
		if p.handle != heard[0].handle {
			c.t.Error("plugins of two generations heard of the binding")
		}
		if slices.Contains(c.first, p) != early {
			c.t.Errorf("a %s heard of the binding that was there before: %v, want %v", p.Called, !early, early)
		}
	}
}
