package swap

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// cell is one pod in one place under one change, and the stream about it. Its
// profile, PluginConfig and namespace are called by its name.
type cell struct {
	Gomega
	desk
	cast
	name, where, what string
	place             swapmatrix.Place
	change            swapmatrix.Change
	ctx               context.Context
	pod               *v1.Pod
	stream            *stream
	// free lets go who is kept, and goes is what else lets the pod go on.
	free chan struct{}
	goes func()
	// played is closed at the end, and faults are what was wrong.
	played chan struct{}
	faults []string
	// deciders are the hashes that decided about the stream.
	deciders sets.Set[string]
}

func newCell(name, where, what string) *cell {
	c := &cell{
		name: name, where: where, what: what, place: swapmatrix.Places[where], change: swapmatrix.Changes[what],
		free: make(chan struct{}), goes: func() {}, played: make(chan struct{}), deciders: sets.New[string](),
	}
	c.spec, c.config = swapmatrix.NewSpec(name), swapmatrix.NewConfig(name)
	c.Gomega = NewGomega(func(message string, _ ...int) { panic(broken(message)) })
	c.SetDefaultEventuallyTimeout(patience)
	c.SetDefaultEventuallyPollingInterval(pulse)
	return c
}

// broken is an expectation that does not hold.
type broken string

// eventually waits until expect holds.
func (c *cell) eventually(expect func(g Gomega), what string) {
	c.Eventually(expect).Should(Succeed(), what)
}

// play plays the cell. However it ends, nobody is kept any longer.
func (c *cell) play() {
	var end context.CancelFunc
	c.ctx, end = context.WithCancel(context.Background())
	defer close(c.played)
	defer end()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			c.faults = append(c.faults, string(r))
		default:
			c.faults = append(c.faults, fmt.Sprintf("%v\n%s", r, debug.Stack()))
		}
		c.open()
		c.goOn()
		if c.stream != nil {
			c.stream.end()
		}
	}()
	begin := time.Now()
	c.acts()
	fmt.Fprintf(GinkgoWriter, "%s, %s, was played in %v\n", c.name, c.sentence(), time.Since(begin))
}

func (c *cell) acts() {
	c.Expect(admin.Create(c.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name}})).To(Succeed())
	c.Expect(admin.Create(c.ctx, c.config)).To(Succeed())
	if c.change.Setup != nil {
		c.change.Setup(user{c})
	}
	before := c.arrange()
	c.change.Apply(user{c})
	if c.place.ArrivesAfter() {
		c.comes()
	}
	c.goOn()
	if reason := c.HoldReason(); reason != "" {
		c.wantHeld(reason)
		c.comeBack()
	} else if c.change.KeepsGeneration || c.change.KeepsWaiting(c.place) {
		c.isAt(c.place.EndsIn, "nothing changed for it")
		c.open()
		c.comesTrue()
	}
	if c.place.BacksOff {
		c.isAt(queue.Backoff, "the backoff is kept")
	}
	by := []stamp{c.runs}
	switch {
	case c.place.Committed:
		by = []stamp{before}
	case c.place.Point != "" || c.place.Where == queue.Held:
		by = append(by, c.between...)
	}
	c.wantBound(by)
	c.wantAsked()
	c.wantStream()
	c.wantNothingLeft()
}

// comesTrue makes what the pod waits for happen.
func (c *cell) comesTrue() {
	if c.place.Where == queue.Gated {
		labelled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+cellOf+`":"`+c.name+`"}}}`))
		c.Expect(admin.Patch(c.ctx, c.pod.DeepCopy(), labelled)).To(Succeed())
		return
	}
	c.Expect(admin.Create(c.ctx, fixture.Node(c.name).Label(cellOf, c.name).Obj())).To(Succeed())
}

// comeBack ends what holds the pods; where what ran before runs on, that has to
// change its mind.
func (c *cell) comeBack() {
	if c.change.KeepsGeneration {
		c.open()
	}
	switch {
	case c.Deleted:
		user{c}.Create(nil)
	case c.NamespaceDisallowed:
		c.NamespaceDisallowed = false
		user{c}.Edit(swapmatrix.AllowAllNamespaces)
	}
	if c.Paused {
		user{c}.resume()
	}
}
