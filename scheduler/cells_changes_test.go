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
const configOf = "shared"

// desk is where a profile and a PluginConfig are written, and reconciled as
// controllers does.
type desk struct {
	object  *v1alpha1.SchedulingProfile
	configs map[string]*v1alpha1.PluginConfig
	cells.Away
	// runs is what runs when all is well; between are those that ran for a
	// moment while the change was made.
	runs    stamp
	between []stamp
}

// stamp names a generation as decisions do.
type stamp struct {
	Hash       string
	Generation int64
}

func stampOf(b *compile.Blueprint) stamp { return stamp{b.Hash, b.Generation} }

func newDesk() desk {
	d := desk{
		object:  &v1alpha1.SchedulingProfile{Spec: cells.NewSpec(configOf)},
		configs: map[string]*v1alpha1.PluginConfig{configOf: cells.NewConfig(configOf)},
	}
	d.object.Name, d.object.Generation = "p", 6
	return d
}

func (d *desk) write(edit func(*cells.Spec)) {
	if edit != nil {
		edit(&d.object.Spec)
	}
	d.object.Generation++
}

func (c *cell) blueprint() (*compile.Blueprint, error) {
	b, rejection := compile.Profile(compile.Input{Profile: c.object, Configs: c.configs, Registry: c.options.Registry, Version: "test"})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	return b, nil
}

func (c *cell) reconcile() error {
	b, err := c.blueprint()
	if err == nil {
		err = c.Profiles().Apply(c.ctx, b)
	}
	if err == nil {
		c.runs = stampOf(b)
	}
	return err
}

func (c *cell) pause(paused bool) {
	c.Paused = paused
	c.Profiles().Pause("p", paused)
}

// user does what the table of changes says.
type user struct{ *cell }

var _ cells.Desk = user{}

func (u user) Write(edit func(*cells.Spec)) { u.write(edit) }

func (u user) Edit(edit func(*cells.Spec)) {
	u.write(edit)
	u.must(u.reconcile())
}

func (u user) EditInVain(edit func(*cells.Spec)) {
	u.write(edit)
	u.mustNot(u.reconcile())
}

func (u user) Passing(edit func(*cells.Spec)) {
	u.Edit(edit)
	u.between = append(u.between, u.runs)
}

func (u user) EditConfig(mark string) {
	u.configs[configOf].Spec.Args = cells.Arguments(mark)
	u.must(u.reconcile())
}

func (u user) DeleteConfig() {
	delete(u.configs, configOf)
	u.mustNot(u.reconcile())
}

func (u user) Pause() { u.pause(true) }

func (u user) Forbid() {
	u.Edit(cells.ForbidAll)
	u.Forbidden = true
}

func (u user) Delete() {
	u.Paused, u.Gone = false, true
	u.Profiles().Delete("p")
}

func (u user) Create(edit func(*cells.Spec)) {
	u.Gone, u.object.Generation = false, 0
	u.Edit(edit)
}

func (u user) EditTwice(first, second func(*cells.Spec)) {
	u.slow = make(chan struct{})
	var both sync.WaitGroup
	for i, edit := range []func(*cells.Spec){first, second} {
		u.write(edit)
		b, err := u.blueprint()
		u.must(err)
		both.Go(func() { u.must(u.Profiles().Apply(u.ctx, b)) })
		if i == 0 {
			synctest.Wait()
		}
		u.between, u.runs = append(u.between, stampOf(b)), stampOf(b)
	}
	// The second waits for a lock, and synctest waits for nobody who does.
	for range 1000 {
		runtime.Gosched()
	}
	close(u.slow)
	both.Wait()
}
