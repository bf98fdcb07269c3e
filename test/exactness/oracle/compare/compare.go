// Package compare runs Berth and kube-scheduler side by side through one
// history and stops where they decide differently.
package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Source is where a history comes from. Next returns io.EOF after the last op;
// Tell is told how each attempt ended.
type Source interface {
	Next() (log.Op, error)
	Tell(outcome *run.Outcome)
}

// Difference is one attempt that the two ended differently.
type Difference struct {
	// Op is the number of the op that was the attempt, from 0.
	Op              int
	Berth, Upstream *run.Outcome
}

// Run takes both through a history until its end or their first difference,
// which is nil when there was none. Coverage, which may be nil, is added to.
// The error says that one of the two would not do what it was told: to take
// the profile, or an op.
func Run(config run.Config, source Source, coverage *Coverage) (*Difference, error) {
	profile, err := upstream.Profile(config)
	if err != nil {
		return nil, wrap("kube-scheduler", err)
	}
	return Against(profile, config, source, coverage)
}

// Against is Run with a profile for kube-scheduler that is not made of Berth's.
func Against(profile *internal.KubeSchedulerProfile, config run.Config, source Source, coverage *Coverage) (*Difference, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config.Explain = true
	berth, berthErr := run.NewBerth(ctx, config)
	theirs, upstreamErr := upstream.For(ctx, profile, config)
	if err := errors.Join(wrap("Berth", berthErr), wrap("kube-scheduler", upstreamErr)); err != nil {
		return nil, err
	}
	follower := &follower{Scheduler: theirs}
	here, there := run.NewWorld(berth), run.NewWorld(follower)
	transform := eventhandlers.Trim(len(config.Foreign) > 0)
	for i := 0; ; i++ {
		op, err := source.Next()
		if errors.Is(err, io.EOF) {
			coverage.remembered(berth.EquivalenceCache().Stats())
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		trimmed, err := delivered(op, transform)
		if err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
		ours, berthErr := here.Do(trimmed)
		follower.leader = ours
		other, upstreamErr := there.Do(op)
		if err := errors.Join(wrap("Berth", berthErr), wrap("kube-scheduler", upstreamErr)); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
		if ours == nil {
			coverage.happened(op)
			continue
		}
		if !equal(ours, other) {
			return &Difference{Op: i, Berth: ours, Upstream: other}, nil
		}
		coverage.add(other, berth, theirs)
		source.Tell(ours)
	}
}

// delivered returns an op with its object as the informers of the shipped manager
// deliver it to Berth. kube-scheduler gets the whole object.
func delivered(op log.Op, transform toolscache.TransformFunc) (log.Op, error) {
	pod, is := op.Object.(*v1.Pod)
	if !is {
		return op, nil
	}
	trimmed, err := transform(pod.DeepCopy())
	if err != nil {
		return op, err
	}
	op.Object = trimmed.(*v1.Pod)
	return op, nil
}

func wrap(who string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", who, err)
}

func equal(a, b *run.Outcome) bool {
	return a.Node == b.Node && a.Evaluated == b.Evaluated && a.Feasible == b.Feasible && message(a) == message(b) &&
		(a.Scores == nil) == (b.Scores == nil) && maps.EqualFunc(a.Scores, b.Scores, sameScores(a.Pod)) &&
		a.Nominated == b.Nominated && slices.Equal(a.Victims, b.Victims) && maps.EqualFunc(a.Candidates, b.Candidates, sameVictims)
}

func sameVictims(a, b run.Candidate) bool {
	return a.Violations == b.Violations && slices.Equal(a.Victims, b.Victims)
}

// message is why no node was chosen. A refusal is told in the same words; of a
// plugin that failed, who failed where is told, since what it then says speaks
// of its own insides.
func message(o *run.Outcome) string {
	if o.Err == nil {
		return ""
	}
	const failed = "running "
	text := o.Err.Error()
	before, after, found := strings.Cut(text, failed)
	if found && (before == "" || strings.HasSuffix(before, " preemption: ")) {
		after, _, _ = strings.Cut(after, ": ")
		return before + failed + after
	}
	return text
}

// Recorded is a history that is read from a list, and so does not depend on
// what is decided.
type Recorded struct {
	Ops []log.Op
	at  int
}

// Next returns the next op of the list.
func (r *Recorded) Next() (log.Op, error) {
	if r.at == len(r.Ops) {
		return log.Op{}, io.EOF
	}
	r.at++
	return r.Ops[r.at-1], nil
}

// Tell does nothing.
func (r *Recorded) Tell(*run.Outcome) {}

// Recorder passes a history on and remembers it.
type Recorder struct {
	Source
	Ops []log.Op
}

// Next returns the source's next op.
func (r *Recorder) Next() (log.Op, error) {
	op, err := r.Source.Next()
	if err == nil {
		r.Ops = append(r.Ops, op)
	}
	return op, err
}

// idle says of a pod's scores by a plugin whether they are as good as none. Pods
// without claims get 0 by kube-scheduler's VolumeBinding everywhere, and Berth's
// skips them.
func idle(pod *v1.Pod) func(plugin string, score int64) bool {
	claims := slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	return func(plugin string, score int64) bool { return plugin == "VolumeBinding" && score == 0 && !claims }
}

// sameScores says whether two nodes have the same scores, but for idle ones.
func sameScores(pod *v1.Pod) func(a, b map[string]int64) bool {
	clean := func(scores map[string]int64) map[string]int64 {
		scores = maps.Clone(scores)
		maps.DeleteFunc(scores, idle(pod))
		return scores
	}
	return func(a, b map[string]int64) bool { return maps.Equal(a, b) || maps.Equal(clean(a), clean(b)) }
}
