package profile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
)

// Waiting is who must hear that a profile changed: the pods that wait for it.
type PodQueue interface {
	// Adopt makes rules those of the profile, whose pods are looked for.
	SetProfile(ctx context.Context, profile string, rules *queue.Rules)
	// Reconsider asks again whether the profile's pods of a namespace, all
	// where that is empty, are held.
	RecheckHolds(ctx context.Context, profile, namespace string)
	// GateOpened asks the gates of the pod with this UID again, where one of them
	// holds it.
	RecheckGates(ctx context.Context, uid types.UID)
	// Abandon holds the profile's pods for the given reason.
	RemoveProfile(ctx context.Context, profile string, hold queue.Hold)
	// Withhold holds the pods of a profile that does not run, and those that come
	// later, until Adopt or Abandon.
	HoldProfile(ctx context.Context, profile string, hold queue.Hold)
}

// Set maps profile names to the Generations that run. It is safe for
// concurrent use.
type Set struct {
	options Options

	mu       sync.Mutex
	profiles map[string]*profileState
	// wanted is the newest Blueprint of a name that Apply has not dealt with.
	pending map[string]*compile.Blueprint
	// old is how many Generations of a name are alive that serve it no more.
	oldGenerations map[string]int
	// abandoned are builds that were given up and have not come back.
	abandonedBuilds map[*builder]struct{}
	// late are the calls of plugins that have not come back, by profile.
	abandonedCalls map[string]abandonedCalls
	// onAilment is told of profiles whose Ailments change; may be nil.
	onDegradationChange func(name string)
}

// Options are what a Set is built from.
type Options struct {
	Registry framework.Registry
	// HostFor is what the plugins of the profile called name are lent.
	HostFor func(name string) framework.Host
	Queue   PodQueue
	// Unsupported names the field of a pod that this build cannot honour, and
	// says why; empty when it can honour all.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Namespace returns the labels of a namespace, false when there is none;
	// nil: every profile takes them all.
	Namespace func(name string) (labels.Set, bool)
	// Informers are lent to the plugins of each Generation anew; nil: HostFor's
	// are theirs.
	Informers *scopedinformers.Pool
	// Extender makes the client of an extender of a profile, which lives as long as
	// life; nil: no profile has any. It opens nothing.
	NewExtender func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)
	// Caches bounds what is remembered for all profiles together; nil: each is
	// bounded alone.
	CacheBudget *cycle.Budget
	// Trials are what trials are made of; nil: none is made.
	Trials *Trials
	// Listed is closed once the house has listed what it watches; nil: it has.
	CachesSynced <-chan struct{}
	// Forget is told of a name that nothing serves any more, when the last of
	// its Generations is closed, or there never was one; may be nil.
	Forget func(name string)
	Clock  clock.WithDelayedExecution
	Log    logr.Logger
	// Go starts work beside the caller; nil means a goroutine.
	Go func(func())
	// Wait waits for such work; nil means framework.Block.
	Wait framework.WaitFunc
}

// slot is what the Set knows of one name. changing serialises changes; the
// rest is guarded by the Set's lock.
type profileState struct {
	changeMu sync.Mutex
	current  *Generation
	since    time.Time
	paused   bool
	// withheld is why pods are held although nothing ran; empty: they are not.
	heldReason string
	// tried is the last trial under the name; nil before the first one.
	lastTrial *Trial
}

// NewSet returns a Set that runs nothing.
func NewSet(o Options) *Set {
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &Set{
		options: o, profiles: map[string]*profileState{}, pending: map[string]*compile.Blueprint{},
		oldGenerations: map[string]int{}, abandonedBuilds: map[*builder]struct{}{}, abandonedCalls: map[string]abandonedCalls{},
	}
}

// Names are those under which something runs, in order.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, slot := range s.profiles {
		if slot.current != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Running says what runs under a name.
func (s *Set) Running(name string) (Running, bool) {
	s.mu.Lock()
	slot, ok := s.profiles[name]
	if !ok || slot.current == nil {
		s.mu.Unlock()
		return Running{}, false
	}
	current := slot.current
	running := Running{Blueprint: current.Blueprint(), Since: slot.since, Degradations: s.degradations(name, current)}
	s.mu.Unlock()
	running.Degradations = append(running.Degradations, current.missedEvents()...)
	return running, true
}

// Acquire returns the Generation that runs under a name with one more
// reference, which the caller releases. It reports false when none runs.
func (s *Set) Acquire(name string) (*Generation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.profiles[name]
	if !ok || slot.current == nil || slot.paused || !slot.current.retain() {
		return nil, false
	}
	return slot.current, true
}

// change returns the slot of a name, made if need be, with its changes locked.
func (s *Set) lockProfile(name string) *profileState {
	for {
		s.mu.Lock()
		if s.profiles[name] == nil {
			s.profiles[name] = &profileState{}
		}
		mine := s.profiles[name]
		s.mu.Unlock()
		mine.changeMu.Lock()
		s.mu.Lock()
		current := s.profiles[name] == mine
		s.mu.Unlock()
		if current {
			return mine
		}
		mine.changeMu.Unlock() // it was dropped while we waited
	}
}

func (s *Set) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.profiles, name)
}
