package scheduler

import (
	"errors"
	"runtime"
	"sync"
	"testing/synctest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/test/cells"
)

// configOf is the name of the cell's PluginConfig.
const sharedConfig = "shared"

// desk is where a profile and a PluginConfig are written, and reconciled as
// controllers does.
type profileStore struct {
	object  *v1alpha1.SchedulingProfile
	configs map[string]*v1alpha1.PluginConfig
	cells.HoldState
	// runs is what runs when all is well; between are those that ran for a
	// moment while the change was made.
	running generationID
	passing []generationID
}

// stamp names a generation as decisions do.
type generationID struct {
	Hash       string
	Generation int64
}

func generationIDOf(b *compile.Blueprint) generationID { return generationID{b.Hash, b.Generation} }

func newProfileStore() profileStore {
	d := profileStore{
		object:  &v1alpha1.SchedulingProfile{Spec: cells.NewSpec(sharedConfig)},
		configs: map[string]*v1alpha1.PluginConfig{sharedConfig: cells.NewConfig(sharedConfig)},
	}
	d.object.Name, d.object.Generation = "p", 6
	return d
}

func (d *profileStore) write(edit func(*cells.Spec)) {
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

// user does what the table of changes says.
type profileUser struct{ *swapCase }

var _ cells.ProfileEditor = profileUser{}

func (u profileUser) Stage(edit func(*cells.Spec)) { u.write(edit) }

func (u profileUser) Edit(edit func(*cells.Spec)) {
	u.write(edit)
	u.must(u.reconcile())
}

func (u profileUser) EditRejected(edit func(*cells.Spec)) {
	u.write(edit)
	u.mustNot(u.reconcile())
}

func (u profileUser) EditBriefly(edit func(*cells.Spec)) {
	u.Edit(edit)
	u.passing = append(u.passing, u.running)
}

func (u profileUser) EditConfig(mark string) {
	u.configs[sharedConfig].Spec.Args = cells.Arguments(mark)
	u.must(u.reconcile())
}

func (u profileUser) DeleteConfig() {
	delete(u.configs, sharedConfig)
	u.mustNot(u.reconcile())
}

func (u profileUser) Pause() { u.pause(true) }

func (u profileUser) DisallowNamespace() {
	u.Edit(cells.DisallowAllNamespaces)
	u.NamespaceDisallowed = true
}

func (u profileUser) Delete() {
	u.Paused, u.Deleted = false, true
	u.Profiles().Delete("p")
}

func (u profileUser) Create(edit func(*cells.Spec)) {
	u.Deleted, u.object.Generation = false, 0
	u.Edit(edit)
}

func (u profileUser) EditTwice(first, second func(*cells.Spec)) {
	u.buildGate = make(chan struct{})
	var both sync.WaitGroup
	for i, edit := range []func(*cells.Spec){first, second} {
		u.write(edit)
		b, err := u.blueprint()
		u.must(err)
		both.Go(func() { u.must(u.Profiles().Apply(u.ctx, b)) })
		if i == 0 {
			synctest.Wait()
		}
		u.passing, u.running = append(u.passing, generationIDOf(b)), generationIDOf(b)
	}
	// The second waits for a lock, and synctest waits for nobody who does.
	for range 1000 {
		runtime.Gosched()
	}
	close(u.buildGate)
	both.Wait()
}
