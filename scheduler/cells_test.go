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
func TestEveryPodStateUnderEveryProfileChange(t *testing.T) {
	for where, p := range cells.Places {
		for what, ch := range cells.Changes {
			t.Run("it is "+where+", and "+what, func(t *testing.T) {
				runTest(t, func(w *testEnv) { newSwapCase(w).runCase(newTestPlace(where, p), ch) }, node("n1"), podNamespace())
			})
		}
	}
}

// home is the namespace of all pods.
func podNamespace() *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: webPod("a").Namespace}}
}

// cell is one pod in one place under one change.
type swapCase struct {
	*testEnv
	profileStore
	pluginSet
	// attempt is one that the test plays itself.
	attempt *queue.Attempt
	// free lets go who is stuck.
	unblocked chan struct{}
	// ends ends the leadership; nil before it began.
	stopLeading func()
}

func newSwapCase(w *testEnv) *swapCase {
	c := &swapCase{testEnv: w, profileStore: newProfileStore(), unblocked: make(chan struct{})}
	c.register(w.options.Registry)
	return c
}

func (c *swapCase) runCase(s testPlace, ch cells.Change) {
	defer func() {
		if c.stopLeading != nil {
			c.stopLeading()
		}
	}()
	if ch.Setup != nil {
		ch.Setup(profileUser{c})
	}
	before := c.arrange(s)
	ch.Apply(profileUser{c})
	synctest.Wait()
	c.proceed(s)
	if reason := c.HoldReason(); reason != "" {
		c.wantHeld(s, reason)
		c.serveAgain(ch.KeepsGeneration)
	} else if ch.KeepsGeneration || ch.KeepsWaiting(s.Place) {
		c.want("the queue, where nothing changed for the pod", c.counts(), countsAt(s.EndsIn))
		c.allowAll()
		c.create(node("n2"))
	}
	if s.BacksOff {
		c.want("the queue while the pod backs off", c.counts(), "1 backoff")
		time.Sleep(time.Minute)
	}
	by := []generationID{c.running}
	switch {
	case s.Committed:
		by = []generationID{before}
	case !s.noLeader:
		by = append(by, c.passing...)
	}
	c.wantBound(by, s.Attempts)
	c.wantPostBind(s.Committed || ch.KeepsGeneration)
	c.wantNothingLeft()
}

// arrange puts the pod into its place, and returns what runs then.
func (c *swapCase) arrange(s testPlace) generationID {
	c.preparePlace(s)
	profileUser{c}.Edit(nil)
	c.markFirst()
	if !s.noLeader {
		c.becomeLeader()
	}
	if !s.ArrivesAfter() {
		c.create(nominatedPod())
	}
	// Between two ticks, at which a follower looks at the cluster: a pod that the
	// test pops is scheduled by the test, and nobody else may look then.
	time.Sleep(2500 * time.Millisecond)
	if s.popped {
		c.attempt = c.queue.TryPop()
	}
	c.want("the queue before", c.counts(), countsAt(s.Where))
	return c.running
}

// goOn lets the pod go on after the change.
func (c *swapCase) proceed(s testPlace) {
	if s.ArrivesAfter() {
		c.create(nominatedPod())
	}
	c.unblock(s)
	if c.attempt != nil {
		c.scheduleOne(c.ctx, c.attempt)
		synctest.Wait() // who begins to lead finds nothing under way
	}
	c.becomeLeader()
}

func (c *swapCase) becomeLeader() {
	if c.stopLeading == nil {
		c.stopLeading = c.startLeading()
	}
	synctest.Wait()
}

// wantHeld wants the pod to wait for its profile, and to say why, unless it was
// under way already.
func (c *swapCase) wantHeld(s testPlace, reason string) {
	counts, condition := "1 parked", "False "+reason
	switch {
	case s.Committed:
		counts, condition = "", "True"
	case s.ArrivesAfter() && c.Deleted:
		// Nobody here knows it: it is told by unserved.
		counts, condition = "", ""
	}
	c.want("the queue while the profile is away", c.counts(), counts)
	told := c.podScheduled("a")
	if len(told) > len(condition) && condition != "" {
		told = told[:len(condition)]
	}
	c.want("the condition while the profile is away", told, condition)
}

// comeBack ends what holds the pods. same says that what ran before runs on,
// and so has to change its mind.
func (c *swapCase) serveAgain(same bool) {
	if same {
		c.allowAll()
	}
	switch {
	case c.Deleted:
		profileUser{c}.Create(nil)
	case c.NamespaceDisallowed:
		profileUser{c}.Edit(cells.AllowAllNamespaces)
		c.NamespaceDisallowed = false
	}
	c.pause(false)
	synctest.Wait()
}

func (c *swapCase) mustNot(err error) {
	c.t.Helper()
	if err == nil {
		c.t.Error("the change was not refused")
	}
}

// wantAsked wants the plugins that heard of the binding to be of one
// generation: that which ran when the pod came to its place, or a later one.
func (c *swapCase) wantPostBind(early bool) {
	var heard []*pluginInstance
	for _, p := range c.all() {
		switch n := count(p.Log.Lines(), p.PluginName+".PostBind n"); {
		case n > 1:
			c.t.Errorf("%s heard %d times of the binding", p.PluginName, n)
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
			c.t.Errorf("a %s heard of the binding that was there before: %v, want %v", p.PluginName, !early, early)
		}
	}
}
