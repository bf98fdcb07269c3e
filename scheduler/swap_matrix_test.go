package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// A pod can be in any of twelve places when its profile changes. For each place and each
// change: the pod is bound once, by the generation that began its attempt or else by the
// one that runs then; it keeps its attempts and its backoff; the change requeues it if it
// concerns what holds the pod, and otherwise the event that it waits for does (these
// profiles have no flush); and no state of it is left behind.
func TestEveryPodStateUnderEveryProfileChange(t *testing.T) {
	for where, p := range swapmatrix.Places {
		for what, ch := range swapmatrix.Changes {
			t.Run(where+", "+what, func(t *testing.T) {
				runTest(t, func(env *testEnv) { newSwapCase(env).runCase(newTestPlace(where, p), ch) }, node("n1"), podNamespace())
			})
		}
	}
}

// podNamespace returns the namespace of all pods.
func podNamespace() *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: webPod("a").Namespace}}
}

// swapCase is one pod in one place under one change of its profile.
type swapCase struct {
	*testEnv
	profileStore
	pluginSet
	// attempt is one that the test runs itself.
	attempt *queue.Attempt
	// newPod returns the pod.
	newPod func() *v1.Pod
	// unblocked is closed to let blocked plugins return.
	unblocked chan struct{}
	// stopLeading ends the leadership; nil before it began.
	stopLeading func()
}

func newSwapCase(env *testEnv) *swapCase {
	c := &swapCase{testEnv: env, profileStore: newProfileStore(), newPod: nominatedPod, unblocked: make(chan struct{})}
	c.register(env.options.Registry)
	return c
}

func (c *swapCase) runCase(s testPlace, ch swapmatrix.Change) {
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

// arrange brings the pod into its place, and returns the generation that runs then.
func (c *swapCase) arrange(s testPlace) generationID {
	c.preparePlace(s)
	profileUser{c}.Edit(nil)
	c.markFirst()
	if !s.noLeader {
		c.becomeLeader()
	}
	if !s.ArrivesAfter() {
		c.create(c.newPod())
	}
	// Between two ticks of Standby: the test itself schedules a pod that it popped, and
	// nothing else may update the snapshot then.
	time.Sleep(2500 * time.Millisecond)
	if s.popped {
		c.attempt = c.queue.TryPop()
	}
	c.want("the queue before", c.counts(), countsAt(s.Where))
	return c.running
}

// proceed lets the pod go on after the change.
func (c *swapCase) proceed(s testPlace) {
	if s.ArrivesAfter() {
		c.create(c.newPod())
	}
	c.unblock(s)
	if c.attempt != nil {
		c.scheduleOne(c.ctx, c.attempt, nil)
		synctest.Wait() // a new leader finds no cycle in flight
	}
	c.becomeLeader()
}

func (c *swapCase) becomeLeader() {
	if c.stopLeading == nil {
		c.stopLeading = c.startLeading()
	}
	synctest.Wait()
}

// wantHeld expects the pod to be held and its condition to say why, unless its attempt had
// begun.
func (c *swapCase) wantHeld(s testPlace, reason string) {
	counts, condition := "1 held", "False "+reason
	switch {
	case s.Committed:
		counts, condition = "", "True"
	case s.ArrivesAfter() && c.Deleted:
		// The queue does not know the pod; the package unserved reports it.
		counts, condition = "", ""
	}
	c.want("the queue while the profile is not served", c.counts(), counts)
	got := c.podScheduled("a")
	if len(got) > len(condition) && condition != "" {
		got = got[:len(condition)]
	}
	c.want("the condition while the profile is not served", got, condition)
}

// serveAgain ends the hold. same says that the generation from before the change goes on,
// so that its answers have to change.
func (c *swapCase) serveAgain(same bool) {
	if same {
		c.allowAll()
	}
	switch {
	case c.Deleted:
		profileUser{c}.Create(nil)
	case c.NamespaceDisallowed:
		profileUser{c}.Edit(swapmatrix.AllowAllNamespaces)
		c.NamespaceDisallowed = false
	}
	c.pause(false)
	synctest.Wait()
}

func (c *swapCase) mustNot(err error) {
	c.t.Helper()
	if err == nil {
		c.t.Error("the change was not rejected")
	}
}

// wantPostBind expects that PostBind was called once per plugin, and only on plugins of one
// generation: the one from before the change where early is true, else a later one.
func (c *swapCase) wantPostBind(early bool) {
	var called []*pluginInstance
	for _, p := range c.all() {
		switch n := count(p.Log.Lines(), p.PluginName+".PostBind n"); {
		case n > 1:
			c.t.Errorf("PostBind of %s was called %d times", p.PluginName, n)
		case n == 1:
			called = append(called, p)
		}
	}
	if len(called) == 0 {
		c.t.Error("PostBind of no plugin was called")
	}
	for _, p := range called {
		if p.handle != called[0].handle {
			c.t.Error("PostBind was called on plugins of two generations")
		}
		if slices.Contains(c.first, p) != early {
			c.t.Errorf("PostBind of a %s was called; it was built before the change: %v, want %v", p.PluginName, !early, early)
		}
	}
}
