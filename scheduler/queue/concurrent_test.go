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

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// concurrentEnv is a queue that many goroutines use at once. version is the state of
// the cluster: a refused pod has seen one version of it, and has to be woken when
// there is a newer one.
type concurrentEnv struct {
	*Queue
	ctx   context.Context
	clock *clocktesting.FakeClock
	rules Rules
	// profiles are the running profiles by name. One goroutine at a time changes a
	// profile, before it calls the queue.
	profiles map[string]*runningProfile
	version  atomic.Int64
	// seen is what each pod's last attempt observed, by *Entity: a pod that was deleted and
	// added again is another one.
	seen     sync.Map
	bindings sync.WaitGroup
}

type runningProfile struct {
	changing sync.Mutex
	rules    atomic.Pointer[Rules]
}

// observation is what an attempt saw: the version of the cluster and the version of
// the plugin that refused the pod.
type observation struct {
	version int64
	fit     string
}

// TestConcurrentUse calls all methods of the queue at once, and then waits until all
// is quiet: every pod is in one place, the in-flight log is empty, and no pod is
// unschedulable that missed an event after its attempt.
func TestConcurrentUse(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			c := newConcurrentEnv(t)
			var writers sync.WaitGroup
			for n, work := range []func(*rand.Rand){c.changePods, c.changePods, c.freeResources, c.freeResources, c.stepClock, c.swapProfiles, c.swapProfiles} {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(n)))
					for range 300 {
						work(rng)
					}
				})
			}
			ctx, stop := context.WithCancel(c.ctx)
			loopDone := make(chan struct{})
			go func() { defer close(loopDone); c.loop(ctx, rand.New(rand.NewPCG(seed, 99))) }()
			writers.Wait()
			stop()
			<-loopDone
			c.bindings.Wait()
			checkQueue(t, c.Queue)
			if n := c.inFlight.entries.Len(); n != 0 {
				t.Errorf("%d entries are left in the in-flight log", n)
			}
			for _, p := range c.pods {
				if p.place != Unschedulable {
					continue
				}
				want := observation{c.version.Load(), c.Queue.rules[p.profile].Key.Plugins["Fit"]}
				if seen, _ := c.seen.Load(p); seen != want {
					t.Errorf("%s is unschedulable as of %v, and the state is %v", p.pod.Name, seen, want)
				}
			}
		})
	}
}

func newConcurrentEnv(t *testing.T) *concurrentEnv {
	c := &concurrentEnv{
		ctx:   klog.NewContext(t.Context(), logr.Discard()),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	c.Queue = New(Options{Clock: c.clock, SliceSize: 2})
	c.rules = Rules{
		Sort: "Priority", Less: byPriority,
		Hold:           func(*v1.Pod) Hold { return Hold{} },
		PreEnqueue:     func(context.Context, *v1.Pod, string) string { return "" },
		Hints:          []Hint{{Plugin: "Fit", Event: podDelete}},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute,
	}
	c.profiles = map[string]*runningProfile{"p": {}, "q": {}}
	for name, r := range c.profiles {
		r.rules.Store(&c.rules)
		c.SetProfile(c.ctx, name, &c.rules)
	}
	return c
}

func (c *concurrentEnv) randomPod(rng *rand.Rand) *v1.Pod {
	n := rng.IntN(30)
	pod := fixture.Pod(fmt.Sprint("pod-", n)).SchedulerName([]string{"p", "q"}[n%2]).Priority(rng.Int32N(3)).Obj()
	if n < 20 && rng.IntN(20) > 0 {
		pod.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: fmt.Sprint("group-", n%4)}
	}
	return pod
}

func (c *concurrentEnv) changePods(rng *rand.Rand) {
	p := c.randomPod(rng)
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
	_ = c.TakeHoldChanges()
}

// freeResources changes the cluster first and then calls Event, as the event handlers
// do.
func (c *concurrentEnv) freeResources(*rand.Rand) {
	c.version.Add(1)
	c.Event(c.ctx, podDelete, fixture.Pod("gone").Obj(), nil, nil)
}

func (c *concurrentEnv) stepClock(rng *rand.Rand) {
	c.clock.Step(time.Duration(rng.IntN(1500)) * time.Millisecond)
	c.Tick(c.ctx)
}

func (c *concurrentEnv) swapProfiles(rng *rand.Rand) {
	rules := c.rules
	fit, gate := fmt.Sprint(rng.IntN(3)), fmt.Sprint(rng.IntN(3))
	rules.Hash = fmt.Sprint(fit, gate, rng.Uint64())
	rules.Groups = rng.IntN(3) > 0
	rules.Key = ProfileKey{Plugins: map[string]string{"Fit": fit, "Gate": gate}, PreEnqueue: sets.New("Gate"), Holds: "none"}
	if rng.IntN(2) == 0 {
		rules.Sort, rules.Less = "Name", byName
	}
	name := []string{"p", "q"}[rng.IntN(2)]
	if rng.IntN(4) == 0 {
		c.Reconsider(c.ctx, name, func(p *v1.Pod) bool { return len(p.Name)%2 == 0 })
	}
	r := c.profiles[name]
	r.changing.Lock()
	defer r.changing.Unlock()
	if rng.IntN(8) == 0 {
		r.rules.Store(nil)
		c.RemoveProfile(name, Hold{Reason: ProfileDeleted})
	}
	r.rules.Store(&rules)
	c.SetProfile(c.ctx, name, &rules)
}

// loop tries pods. Half of the attempts end in another goroutine, as binding cycles
// do.
func (c *concurrentEnv) loop(ctx context.Context, rng *rand.Rand) {
	for a := c.Pop(ctx); a != nil; a = c.Pop(ctx) {
		if a.Group != nil {
			c.tryGroup(a, rng)
			continue
		}
		rules := c.profiles[a.Pod.Spec.SchedulerName].rules.Load()
		if rules == nil || rules.Hash != a.AdmittedBy {
			a.Return(c.ctx)
			continue
		}
		kind := rng.IntN(10)
		if rng.IntN(2) == 0 {
			c.end(a, rules, kind)
			continue
		}
		c.bindings.Go(func() { c.end(a, rules, kind) })
	}
}

// tryGroup ends the attempts of a group's members, some of them in other goroutines, and
// then that of the group.
func (c *concurrentEnv) tryGroup(a *Attempt, rng *rand.Rand) {
	rules := c.profiles[a.Group.Members[0].Pod.Spec.SchedulerName].rules.Load()
	if rules == nil || rules.Hash != a.AdmittedBy || rng.IntN(8) == 0 {
		a.Return(c.ctx)
		return
	}
	for _, member := range a.Group.Members {
		if kind := []int{0, 1, 3}[rng.IntN(3)]; rng.IntN(2) == 0 {
			c.end(member, rules, kind)
		} else {
			c.bindings.Go(func() { c.end(member, rules, kind) })
		}
	}
	a.FinishGroup(c.ctx, GroupResult(rng.IntN(3)))
}

func (c *concurrentEnv) end(a *Attempt, rules *Rules, kind int) {
	switch kind {
	case 0:
		a.Done()
	case 1:
		a.StopRecordingEvents()
		a.Failed(c.ctx)
	case 2:
		a.Return(c.ctx)
	default:
		c.seen.Store(a.queuedPod, observation{c.version.Load(), rules.Key.Plugins["Fit"]})
		a.Refused(c.ctx, sets.New("Fit"), nil)
	}
}
