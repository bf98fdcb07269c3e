// Package profile holds the running profiles and replaces them without a restart: the hot
// swap. Package controllers applies Blueprints; the scheduling loop acquires Generations.
package profile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/scheduler/scopedinformers"
)

// PodQueue is the queue that a Set notifies when profiles change.
type PodQueue interface {
	// SetProfile applies rules to the profile's pods, and looks for pods of the profile.
	SetProfile(ctx context.Context, profile string, rules *queue.Rules)
	// RecheckHolds checks again whether the profile's pods of a namespace, of all
	// namespaces if that is empty, are held.
	RecheckHolds(ctx context.Context, profile, namespace string)
	// RecheckGates runs the PreEnqueue plugins again for the pod with this UID, if one of
	// them rejected it.
	RecheckGates(ctx context.Context, uid types.UID)
	// RemoveProfile holds the profile's pods with the given reason and message.
	RemoveProfile(ctx context.Context, profile string, hold queue.Hold)
	// HoldProfile holds the pods of a profile that does not run, also pods that are created
	// later, until SetProfile or RemoveProfile.
	HoldProfile(ctx context.Context, profile string, hold queue.Hold)
	// ReleaseProfile forgets the pods of a profile that does not run, until SetProfile or
	// HoldProfile.
	ReleaseProfile(ctx context.Context, profile string)
}

// Hosts provide what plugins get through their Handle.
type Hosts interface {
	// HostFor returns the Host of the plugins of a profile.
	HostFor(profile string) framework.Host
}

// Set maps profile names to running Generations. It is safe for concurrent use.
type Set struct {
	options Options

	mu       sync.Mutex
	profiles map[string]*profileState
	// pending is the newest Blueprint of a name that Apply has not finished.
	pending map[string]*compile.Blueprint
	// oldGenerations is the number of open Generations of a name that were replaced.
	oldGenerations map[string]int
	// abandonedBuilds are the abandoned builds that have not returned.
	abandonedBuilds map[*builder]struct{}
	// abandonedCalls are the abandoned plugin calls that have not returned, by profile.
	abandonedCalls map[string]abandonedCalls
	// abandonedCloses are the abandoned calls of Close that have not returned, by profile.
	abandonedCloses map[string]abandonedCalls
	// degradedChanges are the profiles whose Degradations changed since
	// TakeDegradedChanges; degradedChanged holds one value while there may be any.
	degradedChanges sets.Set[string]
	degradedChanged chan struct{}
}

// Options configure a Set.
type Options struct {
	Registry framework.Registry
	Hosts    Hosts
	Queue    PodQueue
	// Unsupported returns a field of a pod that this build does not support, and why; empty
	// if it supports all.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Namespaces lists the namespaces; nil means that every profile allows all.
	Namespaces corelisters.NamespaceLister
	// Informers gives each Generation its own informer factory; nil leaves that of Hosts.
	Informers *scopedinformers.Pool
	// NewExtender returns the client of a profile's extender, which lives until ctx ends. It
	// opens no connection. nil means that extenders are disabled.
	NewExtender func(ctx context.Context, profile string, c extender.Config) (fwk.Extender, error)
	// CacheBudget bounds the equivalence caches of all profiles together; nil bounds each on
	// its own.
	CacheBudget *cycle.Budget
	// Cluster is what a trial reads. Plugins cannot change anything through its Host. nil
	// disables trials.
	Cluster *sandbox.Source
	// CachesSynced is closed once Berth's own informers have synced; nil means that they
	// have.
	CachesSynced <-chan struct{}
	// Applied is called with each Generation that has just begun to decide; may be nil.
	Applied func(g *Generation)
	// Forget is called with a name of which no Generation is left, also if there never was
	// one; may be nil. It must not call the Set.
	Forget func(name string)
	Clock  clock.WithDelayedExecution
	Log    logr.Logger
	// Go starts concurrent work; nil means a goroutine.
	Go func(func())
	// Wait waits for such work; nil means framework.Block.
	Wait framework.WaitFunc
}

// profileState is the state of one name. changeMu serialises changes; the Set's lock guards
// the other fields.
type profileState struct {
	changeMu sync.Mutex
	current  *Generation
	since    time.Time
	paused   bool
	// heldReason is why the pods are held while nothing runs; empty if they are not.
	heldReason string
	// lastTrial is the last trial of the name; nil before the first one.
	lastTrial *Trial
}

// NewSet returns an empty Set.
func NewSet(o Options) *Set {
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &Set{
		options: o, profiles: map[string]*profileState{}, pending: map[string]*compile.Blueprint{},
		oldGenerations: map[string]int{}, abandonedBuilds: map[*builder]struct{}{}, abandonedCalls: map[string]abandonedCalls{}, abandonedCloses: map[string]abandonedCalls{},
		degradedChanges: sets.New[string](), degradedChanged: make(chan struct{}, 1),
	}
}

// Names returns the names under which a Generation runs, sorted.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, state := range s.profiles {
		if state.current != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Running returns what runs under a name.
func (s *Set) Running(name string) (Running, bool) {
	s.mu.Lock()
	state, ok := s.profiles[name]
	if !ok || state.current == nil {
		s.mu.Unlock()
		return Running{}, false
	}
	current := state.current
	running := Running{Blueprint: current.Blueprint(), Since: state.since, Degradations: s.degradations(name, current)}
	s.mu.Unlock()
	for _, message := range current.builder.missedEvents() {
		running.Degradations = append(running.Degradations, Degradation{EventsMissed, message})
	}
	return running, true
}

// Acquire returns the current Generation of a name with a reference that the caller must
// release. It reports false if none runs or the profile is paused.
func (s *Set) Acquire(name string) (*Generation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.profiles[name]
	if !ok || state.current == nil || state.paused || !state.current.retain() {
		return nil, false
	}
	return state.current, true
}

// lockProfile returns the state of a name, which it creates if it is missing, with changeMu
// locked.
func (s *Set) lockProfile(name string) *profileState {
	for {
		s.mu.Lock()
		if s.profiles[name] == nil {
			s.profiles[name] = &profileState{}
		}
		state := s.profiles[name]
		s.mu.Unlock()
		state.changeMu.Lock()
		s.mu.Lock()
		current := s.profiles[name] == state
		s.mu.Unlock()
		if current {
			return state
		}
		state.changeMu.Unlock() // the state was removed before it was locked
	}
}

func (s *Set) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.profiles, name)
}
