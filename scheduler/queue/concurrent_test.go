package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/test/fixture"
)

// crowd is a queue that many work in at once. room is the state of the
// cluster: a pod that is refused has seen one version of it, and has to be
// woken when there is a newer one.
type crowd struct {
	*Queue
	ctx    context.Context
	clock  *clocktesting.FakeClock
	rules  Rules
	room   atomic.Int64
	seen   sync.Map // of pod name to the version its last attempt saw
	landed sync.WaitGroup
}

// TestManyAtWork lets everybody who may call the queue do so at once, then
// waits until all is quiet: every pod is in one place, nothing is kept for
// anybody, and no pod sleeps through what happened after it was looked at.
func TestManyAtWork(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			c := newCrowd(t)
			var writers sync.WaitGroup
			for n, work := range []func(*rand.Rand){c.comeAndGo, c.comeAndGo, c.makeRoom, c.makeRoom, c.letTimePass, c.swapProfiles} {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(n)))
					for range 300 {
						work(rng)
					}
				})
			}
			ctx, stop := context.WithCancel(c.ctx)
			looped := make(chan struct{})
			go func() { defer close(looped); c.loop(ctx, rand.New(rand.NewPCG(seed, 99))) }()
			writers.Wait()
			stop()
			<-looped
			c.landed.Wait()
			checkQueue(t, c.Queue)
			if n := c.flights.log.Len(); n != 0 {
				t.Errorf("%d entries are left in the log", n)
			}
			for _, p := range c.pods {
				if p.where != Unschedulable {
					continue
				}
				if seen, _ := c.seen.Load(p.pod.Name); seen != c.room.Load() {
					t.Errorf("%s sleeps; it saw version %v, and %d is there", p.pod.Name, seen, c.room.Load())
				}
			}
		})
	}
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{
		ctx:   klog.NewContext(t.Context(), logr.Discard()),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	c.Queue = New(Options{Clock: c.clock, OnHold: func(*v1.Pod, Hold) {}})
	c.rules = Rules{
		Sort: "Priority", Less: byPriority,
		Hold:           func(*v1.Pod) Hold { return Hold{} },
		PreEnqueue:     func(context.Context, *v1.Pod, string) string { return "" },
		Hints:          []Hint{{Plugin: "Fit", Event: podDelete}},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute,
	}
	c.Adopt(c.ctx, "p", &c.rules)
	c.Adopt(c.ctx, "q", &c.rules)
	return c
}

func (c *crowd) somePod(rng *rand.Rand) *v1.Pod {
	n := rng.IntN(30)
	return fixture.Pod(fmt.Sprint("pod-", n)).Scheduler([]string{"p", "q"}[n%2]).Priority(rng.Int32N(3)).Obj()
}

func (c *crowd) comeAndGo(rng *rand.Rand) {
	p := c.somePod(rng)
	switch rng.IntN(6) {
	case 0:
		c.Delete(p.UID)
	case 1:
		c.Activate(c.ctx, map[string]*v1.Pod{"": p})
	case 2, 3:
		c.Update(c.ctx, p, p, podLabel)
	default:
		c.Add(c.ctx, p)
	}
	_ = c.Counts("p")
	_ = c.Held()
}

// makeRoom changes the cluster first and tells of it then, as intake does.
func (c *crowd) makeRoom(*rand.Rand) {
	c.room.Add(1)
	c.Event(c.ctx, podDelete, fixture.Pod("gone").Obj(), nil, nil)
}

func (c *crowd) letTimePass(rng *rand.Rand) {
	c.clock.Step(time.Duration(rng.IntN(1500)) * time.Millisecond)
	c.Tick(c.ctx)
}

func (c *crowd) swapProfiles(rng *rand.Rand) {
	rules := c.rules
	if rng.IntN(2) == 0 {
		rules.Sort, rules.Less = "Name", byName
	}
	if rng.IntN(8) == 0 {
		c.Abandon("q", Hold{Reason: ProfileDeleted})
	}
	c.Adopt(c.ctx, "q", &rules)
}

// loop tries pods; some attempts end beside it, as bindings do.
func (c *crowd) loop(ctx context.Context, rng *rand.Rand) {
	for a := c.Pop(ctx); a != nil; a = c.Pop(ctx) {
		kind := rng.IntN(10)
		if rng.IntN(2) == 0 {
			c.end(a, kind)
			continue
		}
		c.landed.Go(func() { c.end(a, kind) })
	}
}

func (c *crowd) end(a *Attempt, kind int) {
	switch kind {
	case 0:
		a.Done()
	case 1:
		a.Deaf()
		a.Failed(c.ctx)
	case 2:
		a.Return(c.ctx)
	default:
		c.seen.Store(a.Pod.Name, c.room.Load())
		a.Refused(c.ctx, sets.New("Fit"), nil)
	}
}
