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
	Scene func(name string) (*trial.Scene, error)
	// HostFor is what the plugins of the profile called name are lent on trial:
	// nothing by which they could change anything.
	HostFor func(name string, town *trial.Town) framework.Host
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
	Late error
}

// mostTold bounds the pods that a message names.
const mostTold = 3

func (e *TrialError) Error() string {
	if e.Late != nil {
		return fmt.Sprintf("on trial, after %s: %v", count(e.Trial.Sampled, "pod"), e.Late)
	}
	faults := e.Trial.Faults
	told := make([]string, min(len(faults), mostTold))
	for i := range told {
		told[i] = fmt.Sprintf("pod %s/%s: %v", faults[i].Namespace, faults[i].Pod, faults[i].Why)
	}
	more := ""
	if n := len(faults) - len(told); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("on trial it could not decide about %d of %s: %s%s", len(faults), count(e.Trial.Sampled, "pod"), strings.Join(told, "; "), more)
}

func count(n int, what string) string {
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
	slot := s.change(blueprint.Name)
	defer slot.changing.Unlock()
	if err := s.mayTry(ctx, slot, blueprint.Name); err != nil {
		return Trial{}, err
	}
	scene, err := s.options.Trials.Scene(blueprint.Name)
	if err != nil {
		return Trial{}, fmt.Errorf("looking at the cluster for a trial: %w", err)
	}
	tried, err := s.try(ctx, scene, blueprint)
	var failed *TrialError
	if err != nil && !errors.As(err, &failed) {
		return Trial{}, err
	}
	s.mu.Lock()
	slot.tried = &tried
	s.mu.Unlock()
	s.options.Log.Info("The profile was tried", "profile", blueprint.Name, "hash", blueprint.Hash, "sampled", tried.Sampled,
		"fitBefore", tried.FitBefore, "fitAfter", tried.FitAfter, "lost", len(tried.Lost), "faults", len(tried.Faults))
	return tried, err
}

// Tried is the last trial under a name; false when there was none.
func (s *Set) Tried(name string) (Trial, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.slots[name]
	if !ok || slot.tried == nil {
		return Trial{}, false
	}
	return *slot.tried, true
}

// mayTry waits until there is something to try on, and says whether what is
// tried could run afterwards.
func (s *Set) mayTry(ctx context.Context, slot *slot, name string) error {
	s.mu.Lock()
	crowded := slot.current != nil && s.old[name] >= maxOld
	s.mu.Unlock()
	if crowded {
		return ErrCrowded
	}
	if s.options.Listed == nil || s.within(ctx, s.options.Listed) == nil {
		return nil
	}
	return ErrUnlisted
}

// try asks the new and the old plugins, and compares.
func (s *Set) try(ctx context.Context, scene *trial.Scene, blueprint *compile.Blueprint) (Trial, error) {
	tried := Trial{Hash: blueprint.Hash, Time: s.options.Clock.Now()}
	town := scene.Town()
	defer town.GiveBack()
	after, err := s.ask(ctx, town, blueprint, scene.Pods())
	var failed *TrialError
	if errors.As(err, &failed) {
		return failed.Trial, err
	}
	if err != nil {
		return tried, err
	}
	before := s.askBefore(ctx, town, blueprint.Name, scene.Pods()[:len(after)])
	tried.Outcome = trial.Compare(scene.Pods(), after, before)
	if ctx.Err() == nil && len(tried.Faults) > 0 {
		tried.Failed = true
		return tried, &TrialError{Trial: tried}
	}
	return tried, ctx.Err()
}

// askBefore asks what runs; nil where nothing does, or where that cannot be
// asked: it is not what is on trial.
func (s *Set) askBefore(ctx context.Context, town *trial.Town, name string, pods []*v1.Pod) trial.Answers {
	running, ok := s.Running(name)
	if !ok {
		return nil
	}
	answers, err := s.ask(ctx, town, running.Blueprint, pods)
	if err != nil {
		s.options.Log.Error(err, "What runs could not be compared with what is on trial", "profile", name)
	}
	if err == nil && answers == nil {
		return trial.Answers{}
	}
	return answers
}

// ask builds a blueprint's plugins on a copy of the cluster, asks them, and
// takes them down.
func (s *Set) ask(ctx context.Context, town *trial.Town, b *compile.Blueprint, pods []*v1.Pod) (trial.Answers, error) {
	m := &build{set: s, blueprint: b, trial: &framework.Trial{}}
	if err := m.make(ctx, s.options.Trials.HostFor(b.Name, town)); err != nil {
		return nil, err
	}
	answers, err := town.Ask(
		klog.NewContext(ctx, s.options.Log.WithValues("profile", b.Name, "hash", b.Hash, "onTrial", true)),
		trial.Rules{
			Clock: s.options.Clock, Go: s.options.Go, Wait: s.options.Wait,
			Queued: func(pod *v1.Pod) fwk.QueuedEntityInfo { return queue.Entity(pod, pod.CreationTimestamp.Time) },
		},
		trial.Candidate{
			Framework: m.framework, PercentageOfNodesToScore: b.PercentageOfNodesToScore,
			Allows: func(namespace string) bool { return s.allows(b.Namespaces, namespace) },
		}, m.trial, pods)
	var late *trial.LateError
	if errors.As(err, &late) {
		tried := Trial{Hash: b.Hash, Time: s.options.Clock.Now(), Failed: true, Outcome: trial.Compare(pods, answers, nil)}
		failed := &TrialError{Trial: tried, Late: err}
		m.leave(late, failed)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return answers, failed
	}
	if !fault.TrialLeftOpen {
		m.takeDown()
	}
	return answers, nil
}

// leave takes the build down once its plugins have come back, and refuses
// another of the same until then.
func (m *build) leave(late *trial.LateError, hangs error) {
	m.hangs = hangs
	m.set.givenUp(m)
	m.giveUp()
	m.set.options.Go(func() {
		_ = m.set.options.Wait(context.Background(), late.Back)
		m.takeDown()
		m.set.cameBack(m)
	})
}
