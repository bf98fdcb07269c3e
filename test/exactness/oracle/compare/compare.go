// Package compare runs one history through Berth and kube-scheduler and stops at the first
// different decision.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/logs"
)

// Source returns the ops of a history. Next returns io.EOF after the last op; Observe takes
// the outcome of each attempt.
type Source interface {
	Next() (log.Op, error)
	Observe(outcome *run.Outcome)
}

// Difference is an attempt with different outcomes.
type Difference struct {
	// Op is the index of the attempt's op.
	Op              int
	Berth, Upstream *run.Outcome
}

// Run runs a history until its end or the first difference, which is nil when there is none.
// It adds to coverage, which may be nil. The error says that one of the two refused the
// profile or an op.
func Run(config run.Config, source Source, coverage *Coverage) (*Difference, error) {
	profile, err := upstream.Profile(config)
	if err != nil {
		return nil, withName("kube-scheduler", err)
	}
	return RunWithProfile(profile, config, source, coverage)
}

// RunWithProfile is Run with a profile for kube-scheduler that is not derived from Berth's.
func RunWithProfile(profile *internal.KubeSchedulerProfile, config run.Config, source Source, coverage *Coverage) (*Difference, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config.Explain = true
	berth, berthErr := run.NewBerth(ctx, config)
	theirs, upstreamErr := upstream.NewForProfile(ctx, profile, config)
	if err := errors.Join(withName("Berth", berthErr), withName("kube-scheduler", upstreamErr)); err != nil {
		return nil, err
	}
	follower := &follower{Scheduler: theirs}
	here, there := run.NewCluster(berth), run.NewCluster(follower)
	transform := eventhandlers.Trim(len(config.OutOfTree) > 0)
	for i := 0; ; i++ {
		op, err := source.Next()
		if errors.Is(err, io.EOF) {
			coverage.addCached(berth.EquivalenceCache().Stats())
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
		if err := errors.Join(withName("Berth", berthErr), withName("kube-scheduler", upstreamErr)); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
		if ours == nil {
			coverage.addOp(op)
			continue
		}
		if !equal(ours, other) {
			return &Difference{Op: i, Berth: ours, Upstream: other}, nil
		}
		coverage.add(other, berth, theirs)
		source.Observe(ours)
	}
}

// delivered returns an op with its object as the manager's informers deliver it to Berth.
// kube-scheduler gets the whole object.
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

func withName(who string, err error) error {
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

// message is the text of a failed attempt. Texts of refusals are compared whole; of a plugin's
// error only up to the plugin's name, since the rest names internals.
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

// Recorded is a history in a list, which does not depend on decisions.
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

// Observe does nothing.
func (r *Recorded) Observe(*run.Outcome) {}

// Recorder records the ops of a source.
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

// ignoredScore returns a function that says whether a plugin's score of the pod is ignored.
// For pods without claims kube-scheduler's VolumeBinding scores 0 everywhere, and Berth's
// returns Skip.
func ignoredScore(pod *v1.Pod) func(plugin string, score int64) bool {
	claims := slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	return func(plugin string, score int64) bool { return plugin == "VolumeBinding" && score == 0 && !claims }
}

// sameScores says whether two nodes have the same scores, but for ignored ones.
func sameScores(pod *v1.Pod) func(a, b map[string]int64) bool {
	clean := func(scores map[string]int64) map[string]int64 {
		scores = maps.Clone(scores)
		maps.DeleteFunc(scores, ignoredScore(pod))
		return scores
	}
	return func(a, b map[string]int64) bool { return maps.Equal(a, b) || maps.Equal(clean(a), clean(b)) }
}

// follower is kube-scheduler with Berth's choice where kube-scheduler's is random: it iterates
// over a set of node names in the order of a map, and that order breaks ties.
type follower struct {
	*upstream.Scheduler
	// leader is Berth's outcome.
	leader *run.Outcome
}

// Attempt returns Berth's node where kube-scheduler could have chosen it.
func (f *follower) Attempt(pod *v1.Pod) *run.Outcome {
	f.Prefer("")
	if f.leader != nil {
		f.Prefer(f.leader.Nominated)
	}
	outcome := f.Scheduler.Attempt(pod)
	if f.leader != nil && outcome.Node != f.leader.Node && severalNames(pod) && best(outcome.Scores, f.leader.Node) {
		outcome.Node = f.leader.Node
	}
	return outcome
}

// severalNames says whether PreFilter may narrow the search to more than one named node.
func severalNames(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	names := sets.New[string]()
	for _, term := range required.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key == metav1.ObjectNameField && r.Operator == v1.NodeSelectorOpIn {
				names.Insert(r.Values...)
			}
		}
	}
	return len(names) > 1
}

// best says whether node was scored, and no other one higher.
func best(scores run.Scores, node string) bool {
	if _, scored := scores[node]; !scored {
		return false
	}
	for _, other := range scores {
		if total(other) > total(scores[node]) {
			return false
		}
	}
	return true
}

func total(scores map[string]int64) int64 {
	var sum int64
	for _, score := range scores {
		sum += score
	}
	return sum
}

// String prints both decisions, and where candidates and scores differ.
func (d *Difference) String() string {
	var text strings.Builder
	for _, side := range []struct {
		name    string
		outcome *run.Outcome
	}{{"kube-scheduler", d.Upstream}, {"Berth", d.Berth}} {
		o := side.outcome
		fmt.Fprintf(&text, "%-14s node %q, evaluated %d, feasible %d, %d scored, message %q\n",
			side.name, o.Node, o.Evaluated, o.Feasible, len(o.Scores), message(o))
	}
	for _, node := range slices.Sorted(maps.Keys(union(d.Upstream.Candidates, d.Berth.Candidates))) {
		if theirs, ours := d.Upstream.Candidates[node], d.Berth.Candidates[node]; !sameVictims(theirs, ours) {
			fmt.Fprintf(&text, "%s: kube-scheduler would evict %+v, Berth %+v\n", node, theirs, ours)
		}
	}
	if d.Upstream.Nominated != d.Berth.Nominated {
		fmt.Fprintf(&text, "kube-scheduler nominates %q, Berth %q\n", d.Upstream.Nominated, d.Berth.Nominated)
	}
	for _, node := range slices.Sorted(maps.Keys(union(d.Upstream.Scores, d.Berth.Scores))) {
		if theirs, ours := d.Upstream.Scores[node], d.Berth.Scores[node]; !maps.Equal(theirs, ours) {
			fmt.Fprintf(&text, "%s: kube-scheduler scores %v, Berth %v\n", node, theirs, ours)
		}
	}
	return text.String()
}

// union has the keys of both maps.
func union[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]V{}
	}
	maps.Copy(both, b)
	return both
}

// Shrink returns as few of ops as still end in a difference, in their order. An impossible
// history counts as one without a difference.
func Shrink(config run.Config, ops []log.Op) []log.Op {
	return logs.Shrink(ops, func(ops []log.Op) int {
		difference, err := Run(config, &Recorded{Ops: ops}, nil)
		if err != nil || difference == nil {
			return -1
		}
		return difference.Op
	})
}
