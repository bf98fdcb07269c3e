package profile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// Trial is the result of a Blueprint's trial.
type Trial struct {
	Hash string
	Time time.Time
	// Failed says that the Blueprint should not run.
	Failed bool
	// Sampled is how many pods were evaluated, FitAfter how many of them fit.
	Sampled, FitAfter int
	// Compared says that the running plugins were evaluated for the same pods, FitBefore
	// how many of the pods fit with them.
	Compared  bool
	FitBefore int
	// Lost are the pods that fit with the running plugins only.
	Lost []PodResult
	// Failures are the pods for which the new plugins failed and the running ones did
	// not. Where nothing runs, Failed is set only if they failed for all pods, or did not
	// return.
	Failures []PodResult
}

// PodResult is a pod and the error with which its evaluation ended.
type PodResult struct {
	Namespace, Pod string
	Err            error
}

// TrialError says that a Blueprint failed its trial.
type TrialError struct {
	Trial Trial
	// AbandonedCall is the error of plugins that did not return in time; nil if all did.
	AbandonedCall error
}

// ErrCachesNotSynced says that a trial has to wait until the caches have synced.
var ErrCachesNotSynced = errors.New("the caches have not synced; the profile is tried on the cluster's pods and nodes before it runs")

// maxFailuresInMessage bounds the pods that a message names.
const maxFailuresInMessage = 3

func (e *TrialError) Error() string {
	if e.AbandonedCall != nil {
		return fmt.Sprintf("on trial, after %s: %v", quantity(e.Trial.Sampled, "pod"), e.AbandonedCall)
	}
	failures := e.Trial.Failures
	texts := make([]string, min(len(failures), maxFailuresInMessage))
	for i := range texts {
		texts[i] = fmt.Sprintf("pod %s/%s: %v", failures[i].Namespace, failures[i].Pod, failures[i].Err)
	}
	more := ""
	if n := len(failures) - len(texts); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("on trial its plugins failed for %d of %s: %s%s", len(failures), quantity(e.Trial.Sampled, "pod"), strings.Join(texts, "; "), more)
}

func quantity(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Try evaluates the blueprint's plugins for real pods, on a copy of the cluster, and compares
// the results with those of the running plugins. It has no effect on the cluster. The error
// is a *TrialError if the blueprint should not run, a *BuildError if it cannot be built, or
// another error if there was no trial. The plugins are built for the trial only; Apply builds
// them again.
func (s *Set) Try(ctx context.Context, blueprint *compile.Blueprint) (Trial, error) {
	if s.options.Cluster == nil {
		return Trial{}, nil
	}
	state := s.lockProfile(blueprint.Name)
	defer state.changeMu.Unlock()
	if err := s.waitForTrial(ctx, state, blueprint.Name); err != nil {
		return Trial{}, err
	}
	cluster, err := s.options.Cluster.Read(blueprint.Name)
	if err != nil {
		return Trial{}, fmt.Errorf("reading the cluster for a trial: %w", err)
	}
	result, err := s.runTrial(ctx, cluster, blueprint)
	var failed *TrialError
	if err != nil && !errors.As(err, &failed) {
		return Trial{}, err
	}
	s.mu.Lock()
	state.lastTrial = &result
	s.mu.Unlock()
	s.options.Log.Info("The trial of the profile ended", "profile", blueprint.Name, "hash", blueprint.Hash, "sampled", result.Sampled,
		"fitBefore", result.FitBefore, "fitAfter", result.FitAfter, "lost", len(result.Lost), "failures", len(result.Failures))
	return result, err
}

// LastTrial returns the last trial of a name; false if there was none.
func (s *Set) LastTrial(name string) (Trial, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.profiles[name]
	if !ok || state.lastTrial == nil {
		return Trial{}, false
	}
	return *state.lastTrial, true
}

// waitForTrial waits until the caches have synced, and returns an error if the blueprint
// could not be applied after the trial.
func (s *Set) waitForTrial(ctx context.Context, state *profileState, name string) error {
	s.mu.Lock()
	tooMany := s.hasTooManyGenerations(state, name)
	s.mu.Unlock()
	if tooMany {
		return ErrTooManyGenerations
	}
	if s.options.CachesSynced == nil || s.runtime().WaitFor(ctx, s.options.CachesSynced, buildTimeout) == nil {
		return nil
	}
	return ErrCachesNotSynced
}

// runTrial evaluates the new and the running plugins and compares their results.
func (s *Set) runTrial(ctx context.Context, state *sandbox.ClusterState, blueprint *compile.Blueprint) (Trial, error) {
	result := Trial{Hash: blueprint.Hash, Time: s.options.Clock.Now()}
	cluster := state.NewCluster()
	defer cluster.Release()
	after, err := s.evaluate(ctx, cluster, blueprint, state.Pods())
	var failed *TrialError
	if errors.As(err, &failed) {
		return failed.Trial, err
	}
	if err != nil {
		return result, err
	}
	before := s.evaluateRunning(ctx, cluster, blueprint.Name, state.Pods()[:len(after)])
	result.compare(state.Pods(), after, before)
	// Where nothing runs, a failure at some pods only is better than none of the name
	// being scheduled: a user can make a plugin fail at one pod.
	_, runs := s.Running(blueprint.Name)
	allFailed := len(result.Failures) == result.Sampled
	if ctx.Err() == nil && len(result.Failures) > 0 && (runs || allFailed) {
		result.Failed = true
		return result, &TrialError{Trial: result}
	}
	return result, ctx.Err()
}

// compare adds the results of the new plugins and, where before is not nil, those of the
// running plugins for the same pods. Where the running plugins fail as well, the change
// makes nothing worse: one pod for which all plugins fail must not block every change.
func (t *Trial) compare(pods []*v1.Pod, after, before sandbox.Results) {
	t.Compared = before != nil
	for i, result := range after {
		compared, podResult := i < len(before), PodResult{pods[i].Namespace, pods[i].Name, result}
		failed := result != nil && !sandbox.Rejected(result)
		if t.Compared && !compared {
			// The running plugins ran out of time here. Only pods with both results
			// count as sampled.
			if failed {
				t.Failures = append(t.Failures, podResult)
			}
			continue
		}
		t.Sampled++
		if result == nil {
			t.FitAfter++
		}
		if compared && before[i] == nil {
			t.FitBefore++
			if result != nil {
				t.Lost = append(t.Lost, podResult)
			}
		}
		if failed && (!compared || before[i] == nil || sandbox.Rejected(before[i])) {
			t.Failures = append(t.Failures, podResult)
		}
	}
}

// evaluateRunning evaluates the running plugins. It returns nil if none run, or if they
// cannot be evaluated, which is no failure of the new plugins.
func (s *Set) evaluateRunning(ctx context.Context, cluster *sandbox.Cluster, name string, pods []*v1.Pod) sandbox.Results {
	running, ok := s.Running(name)
	if !ok {
		return nil
	}
	results, err := s.evaluate(ctx, cluster, running.Blueprint, pods)
	if err != nil {
		s.options.Log.Error(err, "The running plugins could not be evaluated, so the trial compares nothing", "profile", name)
	}
	if err == nil && results == nil {
		return sandbox.Results{}
	}
	return results
}

// evaluate builds a blueprint's plugins on a copy of the cluster, evaluates them and tears
// them down.
func (s *Set) evaluate(ctx context.Context, cluster *sandbox.Cluster, b *compile.Blueprint, pods []*v1.Pod) (sandbox.Results, error) {
	m := &builder{set: s, blueprint: b, trial: &framework.Trial{}}
	if err := m.buildPlugins(ctx, cluster.Host()); err != nil {
		return nil, err
	}
	results, err := cluster.Evaluate(
		klog.NewContext(ctx, s.options.Log.WithValues("profile", b.Name, "hash", b.Hash, "onTrial", true)),
		sandbox.Candidate{
			Framework: m.framework, Trial: m.trial, PercentageOfNodesToScore: b.PercentageOfNodesToScore,
			NamespaceAllowed: func(namespace string) bool { return s.namespaceAllowed(b.Namespaces, namespace) },
		}, pods)
	var late *sandbox.LateError
	if errors.As(err, &late) {
		result := Trial{Hash: b.Hash, Time: s.options.Clock.Now(), Failed: true}
		result.compare(pods, results, nil)
		failed := &TrialError{Trial: result, AbandonedCall: err}
		m.abandon(late.Watch, failed)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return results, failed
	}
	m.teardown()
	return results, nil
}
