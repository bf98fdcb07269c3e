package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/berthdev/berth/test/replay/run"
)

// evaluator is kube-scheduler's preemption with two things taken out: chance,
// so that the search goes from the first node to the last and budgets have an
// order, and the evictions themselves. What it finds on its way is written down.
type evaluator struct {
	*defaultpreemption.DefaultPreemption
	evaluator *preemption.Evaluator
	// candidates are those of the last preemption, by node; until there are
	// two to choose from, all nodes that would do.
	candidates map[string]*extenderv1.Victims
	several    bool
}

var _ preemption.Interface = &evaluator{}

// newEvaluator returns nil for a profile without the plugin.
func newEvaluator(ctx context.Context, profile *internal.KubeSchedulerProfile, f framework.Framework) (*evaluator, error) {
	if !f.HasPostFilterPlugins() {
		return nil, nil
	}
	// Groups are off, as in kube-scheduler by default; victims told at once or
	// beside the loop are the same victims.
	var features feature.Features
	for _, given := range profile.PluginConfig {
		args, ok := given.Args.(*internal.DefaultPreemptionArgs)
		if !ok {
			continue
		}
		plugin, err := defaultpreemption.New(ctx, args, f, features)
		if err != nil {
			return nil, err
		}
		e := &evaluator{DefaultPreemption: plugin}
		executor := preemption.NewExecutor(f, features)
		executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
			return false, nil
		}
		e.evaluator = preemption.NewEvaluator(defaultpreemption.Name, f, e, executor)
		e.evaluator.PdbLister = byName{e.evaluator.PdbLister}
		return e, nil
	}
	return nil, errors.New("the profile has no DefaultPreemptionArgs")
}

// GetOffsetAndNumCandidates is upstream's, from the first node on.
func (e *evaluator) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = e.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return 0, candidates
}

// SelectVictimsOnNode is upstream's, written down.
func (e *evaluator) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := e.DefaultPreemption.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
	if status.IsSuccess() {
		e.candidates[node.Node().Name] = &extenderv1.Victims{Pods: victims, NumPDBViolations: int64(violations)}
	}
	return victims, violations, status
}

// CandidatesToVictimsMap is upstream's, written down: not every node that would
// do is a candidate, since enough is enough.
func (e *evaluator) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := e.DefaultPreemption.CandidatesToVictimsMap(candidates)
	if !e.several {
		e.candidates, e.several = maps.Clone(victims), true
	}
	return victims
}

// byName lists budgets in the order of their names, where upstream has that of
// a map: of two that select a pod, the second is charged only where the first
// one lets the pod go.
type byName struct {
	policylisters.PodDisruptionBudgetLister
}

func (l byName) List(selector labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := l.PodDisruptionBudgetLister.List(selector)
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return budgets, err
}

// inOrder tries nodes in the order in which they are listed, where upstream has
// that of a map: which of them are enough is left to chance there.
type inOrder struct{ fwk.NodeToStatusReader }

func (o inOrder) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	all, err := lister.List()
	if err != nil {
		return nil, err
	}
	var found []fwk.NodeInfo
	for _, node := range all {
		if o.Get(node.Node().Name).Code() == code {
			found = append(found, node)
		}
	}
	return found, nil
}

// Prefer says which node a preemption is to choose where kube-scheduler's
// criteria leave it open: there, the order of a map decides.
func (s *Scheduler) Prefer(node string) { s.prefer = node }

// Tied is how many nodes were left for chance to choose from when the last
// preemption chose one: 1 when it had no say.
func (s *Scheduler) Tied() int { return s.tied }

// makeRoom does what kube-scheduler does when nothing fits: it runs PostFilter
// and keeps the nomination.
func (s *Scheduler) makeRoom(state fwk.CycleState, outcome *run.Outcome) {
	var unfit *framework.FitError
	if s.evaluator == nil || !errors.As(outcome.Err, &unfit) {
		return
	}
	if outcome.Err = s.list(outcome.Pod); outcome.Err != nil {
		return
	}
	outcome.Err = unfit
	e := s.evaluator
	e.candidates, e.several = map[string]*extenderv1.Victims{}, false
	result, status := e.evaluator.Preempt(s.ctx, state, outcome.Pod, inOrder{unfit.Diagnosis.NodeToStatus})
	message := status.Message()
	if status.IsSuccess() {
		if only := result.NominatedNodeName; !e.several {
			e.candidates, e.several = map[string]*extenderv1.Victims{only: e.candidates[only]}, true
		}
		result.NominatedNodeName = s.choose(result.NominatedNodeName)
		chosen := e.candidates[result.NominatedNodeName]
		message = fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", result.NominatedNodeName, len(chosen.Pods))
		outcome.Victims = run.NamesOf(chosen.Pods)
		outcome.Candidates = map[string]run.Candidate{}
		for node, victims := range e.candidates {
			outcome.Candidates[node] = run.Candidate{Victims: run.NamesOf(victims.Pods), Violations: int(victims.NumPDBViolations)}
		}
	}
	unfit.Diagnosis.PostFilterMsg = "preemption: " + message
	var promise *fwk.NominatingInfo
	if result != nil {
		promise = result.NominatingInfo
	}
	s.scheduler.SchedulingQueue.AddNominatedPod(s.log, s.attempted, promise)
	if promise.Mode() == fwk.ModeOverride {
		outcome.Nominated = promise.NominatedNodeName
	}
}

// list makes the pod one that exists and waits: the evaluator and the nominator
// ask for it by name.
func (s *Scheduler) list(pod *v1.Pod) error {
	known, listed, err := s.listed.Get(pod)
	if err != nil {
		return err
	}
	var before *v1.Pod
	if listed {
		before = known.(*v1.Pod)
	}
	return s.waits(before, pod)
}

// choices is how often kube-scheduler is asked to choose between two nodes,
// until it is believed never to take one of them.
const choices = 64

// choose returns the preferred node where kube-scheduler might have chosen it
// as well as the one that it chose, and counts all that it might have.
func (s *Scheduler) choose(chosen string) string {
	s.tied = 0
	node := chosen
	for other := range s.evaluator.candidates {
		if other != chosen && !s.mightChoose(other, chosen) {
			continue
		}
		s.tied++
		if other == s.prefer {
			node = other
		}
	}
	return node
}

// mightChoose says whether kube-scheduler takes a rather than b sometimes.
// Criteria are asked in turn, so that a tie of two is a tie among all.
func (s *Scheduler) mightChoose(a, b string) bool {
	e := s.evaluator
	pair := []preemption.Candidate{candidate{a, e.candidates[a]}, candidate{b, e.candidates[b]}}
	for range choices {
		if e.evaluator.SelectCandidate(s.ctx, pair).Name() == a {
			return true
		}
	}
	return false
}

// candidate is a node and who would have to leave it.
type candidate struct {
	name    string
	victims *extenderv1.Victims
}

func (c candidate) Name() string                 { return c.name }
func (c candidate) Victims() *extenderv1.Victims { return c.victims }
func (c candidate) NumPodGroupDisruptions() int  { return 0 }
