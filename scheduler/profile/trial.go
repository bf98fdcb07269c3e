package profile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/trial"
)

// Trials are what trials are made of.
type Trials struct {
	// Scene is the cluster as it is, and the pods of a profile in it.
	ClusterState func(name string) (*trial.ClusterState, error)
	// HostFor is what the plugins of the profile called name are lent on trial:
	// nothing by which they could change anything.
	HostFor func(name string, town *trial.Sandbox) framework.Host
}

// Trial is how a Blueprint did on trial.
type Trial struct {
	Hash string
	Time time.Time
	// Failed says that it should not run.
	Failed bool
	trial.Outcome
}

// TrialError says that a Blueprint failed its trial.
type TrialError struct {
	Trial Trial
	// Late is set when the trial ended with plugins that did not come back.
	AbandonedCall error
}

// mostTold bounds the pods that a message names.
const maxFailuresInMessage = 3

func (e *TrialError) Error() string {
	if e.AbandonedCall != nil {
		return fmt.Sprintf("on trial, after %s: %v", quantity(e.Trial.Sampled, "pod"), e.AbandonedCall)
	}
	faults := e.Trial.Failures
	told := make([]string, min(len(faults), maxFailuresInMessage))
	for i := range told {
		told[i] = fmt.Sprintf("pod %s/%s: %v", faults[i].Namespace, faults[i].Pod, faults[i].Err)
	}
	more := ""
	if n := len(faults) - len(told); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("on trial it could not decide about %d of %s: %s%s", len(faults), quantity(e.Trial.Sampled, "pod"), strings.Join(told, "; "), more)
}

func quantity(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Try asks the blueprint's plugins about real pods, on a copy of the cluster,
// and what runs about the same ones; nothing of it counts. The error is a
// *TrialError when it should not run, a *BuildError when it cannot, or why it
// could not be tried. It is built for this alone: what is to run is built anew.
func (s *Set) Try(ctx context.Context, blueprint *compile.Blueprint) (Trial, error) {
	if s.options.Trials == nil {
		return Trial{}, nil
	}
	slot := s.lockProfile(blueprint.Name)
	defer slot.changeMu.Unlock()
	if err := s.waitForTrial(ctx, slot, blueprint.Name); err != nil {
		return Trial{}, err
	}
	scene, err := s.options.Trials.ClusterState(blueprint.Name)
	if err != nil {
		return Trial{}, fmt.Errorf("looking at the cluster for a trial: %w", err)
	}
	tried, err := s.runTrial(ctx, scene, blueprint)
	var failed *TrialError
	if err != nil && !errors.As(err, &failed) {
		return Trial{}, err
	}
	s.mu.Lock()
	slot.lastTrial = &tried
	s.mu.Unlock()
	s.options.Log.Info("The profile was tried", "profile", blueprint.Name, "hash", blueprint.Hash, "sampled", tried.Sampled,
		"fitBefore", tried.FitBefore, "fitAfter", tried.FitAfter, "lost", len(tried.Lost), "faults", len(tried.Failures))
	return tried, err
}

// Tried is the last trial under a name; false when there was none.
func (s *Set) LastTrial(name string) (Trial, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.profiles[name]
	if !ok || slot.lastTrial == nil {
		return Trial{}, false
	}
	return *slot.lastTrial, true
}

// mayTry waits until there is something to try on, and says whether what is
// tried could run afterwards.
func (s *Set) waitForTrial(ctx context.Context, slot *profileState, name string) error {
	s.mu.Lock()
	crowded := slot.current != nil && s.oldGenerations[name] >= maxOldGenerations
	s.mu.Unlock()
	if crowded {
		return ErrTooManyGenerations
	}
	if s.options.CachesSynced == nil || s.waitWithTimeout(ctx, s.options.CachesSynced) == nil {
		return nil
	}
	return ErrCachesNotSynced
}

// try asks the new and the old plugins, and compares.
func (s *Set) runTrial(ctx context.Context, scene *trial.ClusterState, blueprint *compile.Blueprint) (Trial, error) {
	tried := Trial{Hash: blueprint.Hash, Time: s.options.Clock.Now()}
	town := scene.NewSandbox()
	defer town.Release()
	after, err := s.evaluate(ctx, town, blueprint, scene.Pods())
	var failed *TrialError
	if errors.As(err, &failed) {
		return failed.Trial, err
	}
	if err != nil {
		return tried, err
	}
	before := s.evaluateRunning(ctx, town, blueprint.Name, scene.Pods()[:len(after)])
	tried.Outcome = trial.Compare(scene.Pods(), after, before)
	if ctx.Err() == nil && len(tried.Failures) > 0 {
		tried.Failed = true
		return tried, &TrialError{Trial: tried}
	}
	return tried, ctx.Err()
}

// askBefore asks what runs; nil where nothing does, or where that cannot be
// asked: it is not what is on trial.
func (s *Set) evaluateRunning(ctx context.Context, town *trial.Sandbox, name string, pods []*v1.Pod) trial.Results {
	running, ok := s.Running(name)
	if !ok {
		return nil
	}
	answers, err := s.evaluate(ctx, town, running.Blueprint, pods)
	if err != nil {
		s.options.Log.Error(err, "What runs could not be compared with what is on trial", "profile", name)
	}
	if err == nil && answers == nil {
		return trial.Results{}
	}
	return answers
}

// ask builds a blueprint's plugins on a copy of the cluster, asks them, and
// takes them down.
func (s *Set) evaluate(ctx context.Context, town *trial.Sandbox, b *compile.Blueprint, pods []*v1.Pod) (trial.Results, error) {
	m := &builder{set: s, blueprint: b, trial: &framework.Trial{}}
	if err := m.buildPlugins(ctx, s.options.Trials.HostFor(b.Name, town)); err != nil {
		return nil, err
	}
	answers, err := town.Evaluate(
		klog.NewContext(ctx, s.options.Log.WithValues("profile", b.Name, "hash", b.Hash, "onTrial", true)),
		trial.Runtime{
			Clock: s.options.Clock, Go: s.options.Go, Wait: s.options.Wait,
			QueuedInfo: func(pod *v1.Pod) fwk.QueuedEntityInfo { return queue.NewQueuedEntity(pod, pod.CreationTimestamp.Time) },
		},
		trial.Candidate{
			Framework: m.framework, PercentageOfNodesToScore: b.PercentageOfNodesToScore,
			NamespaceAllowed: func(namespace string) bool { return s.namespaceAllowed(b.Namespaces, namespace) },
		}, m.trial, pods)
	var late *trial.LateError
	if errors.As(err, &late) {
		tried := Trial{Hash: b.Hash, Time: s.options.Clock.Now(), Failed: true, Outcome: trial.Compare(pods, answers, nil)}
		failed := &TrialError{Trial: tried, AbandonedCall: err}
		m.teardownOnceReturned(late, failed)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return answers, failed
	}
	if !fault.TrialLeftOpen {
		m.teardown()
	}
	return answers, nil
}

// leave takes the build down once its plugins have come back, and refuses
// another of the same until then.
func (m *builder) teardownOnceReturned(late *trial.LateError, hangs error) {
	m.rebuildError = hangs
	m.set.addAbandonedBuild(m)
	m.cancelPlugins()
	m.set.options.Go(func() {
		_ = m.set.options.Wait(context.Background(), late.Returned)
		m.teardown()
		m.set.removeAbandonedBuild(m)
	})
}
