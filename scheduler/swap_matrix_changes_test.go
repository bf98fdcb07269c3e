package scheduler

import (
	"errors"
	"runtime"
	"sync"
	"testing/synctest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// sharedConfig is the name of the PluginConfig that the profile refers to.
const sharedConfig = "shared"

// profileStore holds the profile and its PluginConfig, and applies their changes as the
// controllers do.
type profileStore struct {
	object  *v1alpha1.SchedulingProfile
	configs map[string]*v1alpha1.PluginConfig
	swapmatrix.HoldState
	// running is the generation that should run; passing are those that ran only while the
	// change was made.
	running generationID
	passing []generationID
}

// generationID identifies a generation as decisions do.
type generationID struct {
	Hash       string
	Generation int64
}

func generationIDOf(b *compile.Blueprint) generationID { return generationID{b.Hash, b.Generation} }

func newProfileStore() profileStore {
	d := profileStore{
		object:  &v1alpha1.SchedulingProfile{Spec: swapmatrix.NewSpec(sharedConfig)},
		configs: map[string]*v1alpha1.PluginConfig{sharedConfig: swapmatrix.NewConfig(sharedConfig)},
	}
	d.object.Name, d.object.Generation = "p", 6
	return d
}

func (d *profileStore) write(edit func(*swapmatrix.Spec)) {
	if edit != nil {
		edit(&d.object.Spec)
	}
	d.object.Generation++
}

func (c *swapCase) blueprint() (*compile.Blueprint, error) {
	b, rejection := compile.Profile(compile.Input{Profile: c.object, Configs: c.configs, Registry: c.options.Registry, Version: "test"})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	return b, nil
}

func (c *swapCase) reconcile() error {
	b, err := c.blueprint()
	if err == nil {
		err = c.Profiles().Apply(c.ctx, b)
	}
	if err == nil {
		c.running = generationIDOf(b)
	}
	return err
}

func (c *swapCase) pause(paused bool) {
	c.Paused = paused
	c.Profiles().SetPaused("p", paused)
}

// profileUser makes the changes of the table of changes.
type profileUser struct{ *swapCase }

var _ swapmatrix.ProfileEditor = profileUser{}

func (u profileUser) Stage(edit func(*swapmatrix.Spec)) { u.write(edit) }

func (u profileUser) Edit(edit func(*swapmatrix.Spec)) {
	u.write(edit)
	u.must(u.reconcile())
}

func (u profileUser) EditRejected(edit func(*swapmatrix.Spec)) {
	u.write(edit)
	u.mustNot(u.reconcile())
}

func (u profileUser) EditBriefly(edit func(*swapmatrix.Spec)) {
	u.Edit(edit)
	u.passing = append(u.passing, u.running)
}

func (u profileUser) EditConfig(mark string) {
	u.configs[sharedConfig].Spec.Args = swapmatrix.Arguments(mark)
	u.must(u.reconcile())
}

func (u profileUser) DeleteConfig() {
	delete(u.configs, sharedConfig)
	u.mustNot(u.reconcile())
}

func (u profileUser) Pause() { u.pause(true) }

func (u profileUser) DisallowNamespace() {
	u.Edit(swapmatrix.DisallowAllNamespaces)
	u.NamespaceDisallowed = true
}

func (u profileUser) Delete() {
	u.Paused, u.Deleted = false, true
	u.Profiles().Delete("p")
}

func (u profileUser) Create(edit func(*swapmatrix.Spec)) {
	u.Deleted, u.object.Generation = false, 0
	u.Edit(edit)
}

func (u profileUser) EditTwice(first, second func(*swapmatrix.Spec)) {
	u.buildGate = make(chan struct{})
	var both sync.WaitGroup
	for i, edit := range []func(*swapmatrix.Spec){first, second} {
		u.write(edit)
		b, err := u.blueprint()
		u.must(err)
		both.Go(func() { u.must(u.Profiles().Apply(u.ctx, b)) })
		if i == 0 {
			synctest.Wait()
		}
		u.passing, u.running = append(u.passing, generationIDOf(b)), generationIDOf(b)
	}
	// The second change waits for a mutex, which synctest.Wait does not wait for.
	for range 1000 {
		runtime.Gosched()
	}
	close(u.buildGate)
	both.Wait()
}

// testPlace is a place where a pod can be, and how this test brings a pod there.
type testPlace struct {
	swapmatrix.Place
	// noLeader says that no process leads before the change; popped that the test itself
	// pops the pod.
	noLeader, popped bool
}

func newTestPlace(name string, p swapmatrix.Place) testPlace {
	pops := name == swapmatrix.Popped
	return testPlace{Place: p, noLeader: pops || p.ArrivesAfter() || p.Where == queue.Active, popped: pops}
}

// preparePlace sets the answers that bring the pod to the place and keep it there.
func (c *swapCase) preparePlace(s testPlace) {
	then := s.Answer
	if s.Blocks {
		then = c.blockAnswer(then)
	}
	switch {
	case s.Where == queue.Held:
		c.pause(true)
	case s.Point == "Bind":
		c.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { <-c.unblocked }})
	case s.Point != "":
		c.answers[s.Point] = then
	}
}

// unblock lets the pod leave the place.
func (c *swapCase) unblock(s testPlace) {
	if s.Blocks {
		close(c.unblocked)
	}
	switch waits := c.waitingPods.Get(webPod("a").UID); s.Permit {
	case swapmatrix.Allow:
		waits.Allow(swapmatrix.Decider)
	case swapmatrix.Reject:
		waits.Reject(swapmatrix.Decider, "no")
	}
}

// countsAt returns what testEnv.counts returns for one pod at the place.
func countsAt(where queue.Place) string {
	return map[queue.Place]string{
		"": "", queue.Active: "1 active", queue.Backoff: "1 backoff", queue.Unschedulable: "1 unschedulable",
		queue.Gated: "1 gated", queue.Held: "1 held", queue.InFlight: "1 in flight",
	}[where]
}
