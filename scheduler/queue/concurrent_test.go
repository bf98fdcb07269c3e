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
	ctx   context.Context
	clock *clocktesting.FakeClock
	rules Rules
	// runs is what runs under each name, changed before the queue hears of it,
	// by one at a time.
	runs map[string]*running
	room atomic.Int64
	// seen are the versions that a pod's last attempt saw. One that comes again
	// is another Pod.
	seen   sync.Map
	landed sync.WaitGroup
}

type running struct {
	changing sync.Mutex
	rules    atomic.Pointer[Rules]
}

// sight is what an attempt saw: the cluster, and the plugin that refused.
type sight struct {
	room int64
	fit  string
}

// TestManyAtWork lets everybody who may call the queue do so at once, then
// waits until all is quiet: every pod is in one place, nothing is kept for
// anybody, and no pod sleeps through what happened after it was looked at.
func TestManyAtWork(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			c := newCrowd(t)
			var writers sync.WaitGroup
			for n, work := range []func(*rand.Rand){c.comeAndGo, c.comeAndGo, c.makeRoom, c.makeRoom, c.letTimePass, c.swapProfiles, c.swapProfiles} {
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
				want := sight{c.room.Load(), c.Queue.rules[p.profile].Makeup.Plugins["Fit"]}
				if seen, _ := c.seen.Load(p); seen != want {
					t.Errorf("%s sleeps; it saw %v, and %v is there", p.pod.Name, seen, want)
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
	c.Queue = New(Options{Clock: c.clock, OnHold: func(*v1.Pod, Hold) {}, Slice: 2})
	c.rules = Rules{
		Sort: "Priority", Less: byPriority,
		Hold:           func(*v1.Pod) Hold { return Hold{} },
		PreEnqueue:     func(context.Context, *v1.Pod, string) string { return "" },
		Hints:          []Hint{{Plugin: "Fit", Event: podDelete}},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute,
	}
	c.runs = map[string]*running{"p": {}, "q": {}}
	for name, r := range c.runs {
		r.rules.Store(&c.rules)
		c.Adopt(c.ctx, name, &c.rules)
	}
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
	fit, gate := fmt.Sprint(rng.IntN(3)), fmt.Sprint(rng.IntN(3))
	rules.Hash = fmt.Sprint(fit, gate, rng.Uint64())
	rules.Makeup = Makeup{Plugins: map[string]string{"Fit": fit, "Gate": gate}, Gates: sets.New("Gate"), Holds: "none"}
	if rng.IntN(2) == 0 {
		rules.Sort, rules.Less = "Name", byName
	}
	name := []string{"p", "q"}[rng.IntN(2)]
	if rng.IntN(4) == 0 {
		c.Reconsider(c.ctx, name, func(p *v1.Pod) bool { return len(p.Name)%2 == 0 })
	}
	r := c.runs[name]
	r.changing.Lock()
	defer r.changing.Unlock()
	if rng.IntN(8) == 0 {
		r.rules.Store(nil)
		c.Abandon(name, Hold{Reason: ProfileDeleted})
	}
	r.rules.Store(&rules)
	c.Adopt(c.ctx, name, &rules)
}

// loop tries pods; some attempts end beside it, as bindings do.
func (c *crowd) loop(ctx context.Context, rng *rand.Rand) {
	for a := c.Pop(ctx); a != nil; a = c.Pop(ctx) {
		rules := c.runs[a.Pod.Spec.SchedulerName].rules.Load()
		if rules == nil || rules.Hash != a.Admitted {
			a.Return(c.ctx)
			continue
		}
		kind := rng.IntN(10)
		if rng.IntN(2) == 0 {
			c.end(a, rules, kind)
			continue
		}
		c.landed.Go(func() { c.end(a, rules, kind) })
	}
}

func (c *crowd) end(a *Attempt, rules *Rules, kind int) {
	switch kind {
	case 0:
		a.Done()
	case 1:
		a.Deaf()
		a.Failed(c.ctx)
	case 2:
		a.Return(c.ctx)
	default:
		c.seen.Store(a.entry, sight{c.room.Load(), rules.Makeup.Plugins["Fit"]})
		a.Refused(c.ctx, sets.New("Fit"), nil)
	}
}
