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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/berthdev/berth/test/replay/run"
)

// evaluator is kube-scheduler's preemption without randomness and without evictions: it
// searches from the first node to the last, and sorts PodDisruptionBudgets. It records what it
// finds.
type evaluator struct {
	*defaultpreemption.DefaultPreemption
	evaluator *preemption.Evaluator
	// candidates are those of the last preemption, by node; until there are two to choose
	// from, all nodes on which victims were found.
	candidates map[string]*extenderv1.Victims
	several    bool
}

var _ preemption.Interface = &evaluator{}

// newEvaluator returns nil for a profile without the plugin.
func newEvaluator(ctx context.Context, profile *internal.KubeSchedulerProfile, f framework.Framework) (*evaluator, error) {
	if !runsAtPostFilter(f, defaultpreemption.Name) {
		return nil, nil
	}
	// Groups are off, as in kube-scheduler by default; asynchronous preemption finds the same
	// victims.
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
		e.evaluator.PdbLister = sortedBudgets{e.evaluator.PdbLister}
		return e, nil
	}
	return nil, errors.New("the profile has no DefaultPreemptionArgs")
}

// GetOffsetAndNumCandidates is upstream's, with offset 0.
func (e *evaluator) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = e.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return 0, candidates
}

// SelectVictimsOnNode is upstream's; it records the victims.
func (e *evaluator) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := e.DefaultPreemption.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
	if status.IsSuccess() {
		e.candidates[node.Node().Name] = &extenderv1.Victims{Pods: victims, NumPDBViolations: int64(violations)}
	}
	return victims, violations, status
}

// CandidatesToVictimsMap is upstream's; it records the candidates, which need not be all nodes
// with victims, since the search ends when it has enough.
func (e *evaluator) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := e.DefaultPreemption.CandidatesToVictimsMap(candidates)
	if !e.several {
		e.candidates, e.several = maps.Clone(victims), true
	}
	return victims
}

// sortedBudgets lists PodDisruptionBudgets by name, where upstream has the order of a map: of
// two that select a pod, the second is charged only where the first one allows the disruption.
type sortedBudgets struct {
	policylisters.PodDisruptionBudgetLister
}

func (l sortedBudgets) List(selector labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := l.PodDisruptionBudgetLister.List(selector)
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return budgets, err
}

// sortedStatuses returns nodes in the order of the list, where upstream has the order of a
// map, which would decide which nodes are searched first.
type sortedStatuses struct{ fwk.NodeToStatusReader }

func (o sortedStatuses) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
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

// Prefer sets the node that a preemption chooses where kube-scheduler's criteria leave a
// choice, which the order of a map decides there.
func (s *Scheduler) Prefer(node string) { s.prefer = node }

// Tied returns the number of nodes between which the criteria left a choice in the last
// preemption.
func (s *Scheduler) Tied() int { return s.tied }

// runPostFilter does what kube-scheduler does when no node is feasible: it runs PostFilter and
// keeps the nomination.
func (s *Scheduler) runPostFilter(state fwk.CycleState, outcome *run.Outcome) {
	var unfit *framework.FitError
	if !s.preempts || !s.framework.HasPostFilterPlugins() || !errors.As(outcome.Err, &unfit) {
		return
	}
	if outcome.Err = s.addToStore(outcome.Pod); outcome.Err != nil {
		return
	}
	outcome.Err = unfit
	err := s.runDevicesPostFilter(state)
	if err != nil {
		unfit.Diagnosis.PostFilterMsg = err.Error()
	}
	if err != nil || s.evaluator == nil {
		s.scheduler.SchedulingQueue.AddNominatedPod(s.log, s.attempted, nil)
		return
	}
	e := s.evaluator
	e.candidates, e.several = map[string]*extenderv1.Victims{}, false
	result, status := e.evaluator.Preempt(s.ctx, state, outcome.Pod, sortedStatuses{unfit.Diagnosis.NodeToStatus})
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
	var nomination *fwk.NominatingInfo
	if result != nil {
		nomination = result.NominatingInfo
	}
	s.scheduler.SchedulingQueue.AddNominatedPod(s.log, s.attempted, nomination)
	if nomination.Mode() == fwk.ModeOverride {
		outcome.Nominated = nomination.NominatedNodeName
	}
}

// runDevicesPostFilter returns the error of PostFilter of DynamicResources, which comes before
// DefaultPreemption and ends PostFilter: the plugin has no state if PreFilter of an earlier
// plugin rejected the pod. Histories with preemption have no claims, so that it does nothing
// else.
func (s *Scheduler) runDevicesPostFilter(state fwk.CycleState) error {
	if !runsAtPostFilter(s.framework, dynamicresources.Name) {
		return nil
	}
	_, err := state.Read(dynamicresources.Name)
	return err
}

func runsAtPostFilter(f framework.Framework, name string) bool {
	return slices.ContainsFunc(f.ListPlugins().PostFilter.Enabled, func(plugin internal.Plugin) bool { return plugin.Name == name })
}

// addToStore adds the pod to the store and the queue: the evaluator and the nominator get it
// by name.
func (s *Scheduler) addToStore(pod *v1.Pod) error {
	known, listed, err := s.podStore.Get(pod)
	if err != nil {
		return err
	}
	var before *v1.Pod
	if listed {
		before = known.(*v1.Pod)
	}
	return s.addPending(before, pod)
}

// maxChoices is how often kube-scheduler chooses between two nodes until one of them is taken
// to be impossible. It iterates over a map of two, which begins with the second one in one of
// eight cases: with 64 choices, one tie in 5,000 was taken for none.
const maxChoices = 256

// choose returns the preferred node where kube-scheduler might have chosen it instead of
// chosen, and counts all that it might have chosen.
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

// mightChoose says whether kube-scheduler ever chooses a instead of b. The criteria apply one
// after the other, so a tie of two is a tie among all.
func (s *Scheduler) mightChoose(a, b string) bool {
	e := s.evaluator
	pair := []preemption.Candidate{candidate{a, e.candidates[a]}, candidate{b, e.candidates[b]}}
	for range maxChoices {
		if e.evaluator.SelectCandidate(s.ctx, pair).Name() == a {
			return true
		}
	}
	return false
}

// candidate is a node with its victims.
type candidate struct {
	name    string
	victims *extenderv1.Victims
}

func (c candidate) Name() string                 { return c.name }
func (c candidate) Victims() *extenderv1.Victims { return c.victims }
func (c candidate) NumPodGroupDisruptions() int  { return 0 }
