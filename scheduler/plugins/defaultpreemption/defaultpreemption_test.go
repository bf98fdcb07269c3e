package defaultpreemption_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultpreemption"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakePreemptor is a handle that offers itself as the Preemptor. It returns plan and
// err, and records the calls.
type fakePreemptor struct {
	fwk.Handle
	plan       *framework.PreemptionPlan
	err        error
	inProgress bool
	request    framework.PreemptionRequest
	executed   []*framework.PreemptionPlan
	nominated  *v1.Pod
	groupPlan  *framework.GroupPreemptionPlan
	status     *fwk.Status
}

func (h *fakePreemptor) NominatedPodsForNode(node string) []fwk.PodInfo {
	if h.nominated == nil || h.nominated.Status.NominatedNodeName != node {
		return nil
	}
	info, _ := framework.NewPodInfo(h.nominated)
	return []fwk.PodInfo{info}
}

func (h *fakePreemptor) Preemptor() framework.Preemptor { return h }
func (h *fakePreemptor) InProgress(types.UID) bool      { return h.inProgress }
func (h *fakePreemptor) Plan(_ context.Context, r framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	h.request = r
	return h.plan, h.err
}
func (h *fakePreemptor) PlanGroup(context.Context, framework.GroupPreemptionRequest) (*framework.GroupPreemptionPlan, *fwk.Status) {
	return h.groupPlan, h.status
}
func (h *fakePreemptor) Execute(_ context.Context, _ fwk.Handle, plan *framework.PreemptionPlan) {
	h.executed = append(h.executed, plan)
}

func TestPodGroupPostFilter(t *testing.T) {
	nominations := map[types.NamespacedName]*fwk.NominatingInfo{{Namespace: "default", Name: "a"}: {NominatedNodeName: "n1", NominatingMode: fwk.ModeOverride}}
	plan := &framework.PreemptionPlan{Victims: []*v1.Pod{fixture.Pod("low").Obj(), fixture.Pod("lower").Obj()}}
	for name, c := range map[string]struct {
		preemptor *fakePreemptor
		code      fwk.Code
		message   string
		executed  int
	}{
		"victims were found": {&fakePreemptor{groupPlan: &framework.GroupPreemptionPlan{PreemptionPlan: plan, Nominations: nominations}}, fwk.Success,
			"pod group preemption: found a placement for podgroup, preempting 2 victims", 1},
		"victims of an earlier plan terminate": {&fakePreemptor{groupPlan: &framework.GroupPreemptionPlan{Nominations: nominations}}, fwk.Success,
			"pod group preemption: ongoing preemption on nominated nodes", 0},
		"there are none": {&fakePreemptor{status: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming preemptor")},
			fwk.UnschedulableAndUnresolvable, "pod group preemption: No preemption victims found for incoming preemptor", 0},
		"the search failed": {&fakePreemptor{status: fwk.AsStatus(errors.New("no budgets"))}, fwk.Error, "pod group preemption: no budgets", 0},
	} {
		t.Run(name, func(t *testing.T) {
			result, status := newPlugin(t, c.preemptor).PodGroupPostFilter(t.Context(), nil, nil, nil)
			if status.Code() != c.code || status.Message() != c.message {
				t.Errorf("%v %q, want %v %q", status.Code(), status.Message(), c.code, c.message)
			}
			if c.code == fwk.Success && cmp.Diff(nominations, result.NominatingInfos) != "" {
				t.Errorf("nominations %v, want %v", result.NominatingInfos, nominations)
			}
			if len(c.preemptor.executed) != c.executed || c.executed > 0 && c.preemptor.executed[0].Plugin != defaultpreemption.Name {
				t.Errorf("executed %v, want %d plans in the name of the plugin", c.preemptor.executed, c.executed)
			}
		})
	}
}

func newPlugin(t *testing.T, handle fwk.Handle) *defaultpreemption.Plugin {
	t.Helper()
	args := &configv1.DefaultPreemptionArgs{}
	defaultpreemption.Default(args)
	plugin, err := defaultpreemption.New(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*defaultpreemption.Plugin)
}

func TestPostFilter(t *testing.T) {
	fitErr := &framework.FitError{NumAllNodes: 3, Diagnosis: framework.NewDiagnosis()}
	fitErr.Diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
	nominated := func(node string) *fwk.PostFilterResult {
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
	}
	for name, c := range map[string]struct {
		preemptor *fakePreemptor
		want      *fwk.PostFilterResult
		code      fwk.Code
		message   string
		executed  int
	}{
		"a plan is executed, and the pod is nominated for its node": {
			preemptor: &fakePreemptor{plan: &framework.PreemptionPlan{Node: "n1", Victims: []*v1.Pod{fixture.Pod("a").Obj(), fixture.Pod("b").Obj()}}},
			want:      nominated("n1"), code: fwk.Success, executed: 1,
			message: "preemption: found a potential placement for pod on node n1, preempting 2 victims",
		},
		"when no victims would make room, an older nomination is cleared": {
			preemptor: &fakePreemptor{err: fitErr}, want: nominated(""), code: fwk.Unschedulable,
			message: "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		"a pod that may not preempt keeps its nomination": {
			preemptor: &fakePreemptor{err: &framework.IneligibleError{Reason: "not eligible due to preemptionPolicy=Never."}}, code: fwk.Unschedulable,
			message: "preemption: not eligible due to preemptionPolicy=Never.",
		},
		"a failure is an error": {
			preemptor: &fakePreemptor{err: errors.New("the pod is gone")}, code: fwk.Error, message: "preemption: the pod is gone",
		},
		"no victims are selected while a preemption is in progress": {
			preemptor: &fakePreemptor{inProgress: true}, code: fwk.Unschedulable,
			message: "preemption: waiting for the preemption for this pod to be finished",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, status := newPlugin(t, c.preemptor).PostFilter(t.Context(), framework.NewCycleState(), fixture.Pod("p").Obj(), framework.NewNodeToStatus())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if status.Code() != c.code || status.Message() != c.message {
				t.Errorf("status %v %q, want %v %q", status.Code(), status.Message(), c.code, c.message)
			}
			if len(c.preemptor.executed) != c.executed {
				t.Errorf("%d plans executed, want %d", len(c.preemptor.executed), c.executed)
			}
			if c.preemptor.err != nil && (c.preemptor.request.MinPercentage != 10 || c.preemptor.request.MinAbsolute != 100) {
				t.Errorf("requested %d%% and %d candidates, want the defaults", c.preemptor.request.MinPercentage, c.preemptor.request.MinAbsolute)
			}
		})
	}
}

func TestPreEnqueue(t *testing.T) {
	for name, c := range map[string]struct {
		handle fwk.Handle
		want   *fwk.Status
	}{
		"a pod is gated while its victims are being evicted": {
			handle: &fakePreemptor{inProgress: true},
			want:   fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished"),
		},
		"another pod is not gated":                       {handle: &fakePreemptor{}},
		"no pod is gated without a handle":               {handle: nil},
		"no pod is gated if the handle has no Preemptor": {handle: struct{ fwk.Handle }{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := newPlugin(t, c.handle).PreEnqueue(t.Context(), fixture.Pod("p").Obj())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostFilterWithoutPreemptorIsAnError(t *testing.T) {
	_, status := newPlugin(t, nil).PostFilter(t.Context(), framework.NewCycleState(), fixture.Pod("p").Obj(), framework.NewNodeToStatus())
	if status.Code() != fwk.Error {
		t.Errorf("status %v, want an error", status)
	}
}

func TestDeletionOfALowerPriorityPodRequeuesThePreemptor(t *testing.T) {
	preemptor := fixture.Pod("p").UID("p").Priority(10)
	events, err := newPlugin(t, &fakePreemptor{nominated: preemptor.NominatedNodeName("n1").Obj()}).EventsToRegister(t.Context())
	if err != nil || len(events) != 1 {
		t.Fatalf("events %v (%v), want one", events, err)
	}
	if want := (fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}); events[0].Event != want {
		t.Errorf("event %v, want %v", events[0].Event, want)
	}
	for name, c := range map[string]struct {
		pod     *fixture.PodBuilder
		deleted any
		want    fwk.QueueingHint
	}{
		"a victim":                    {preemptor, fixture.Pod("v").On("n1").Obj(), fwk.Queue},
		"a pod of the same priority":  {preemptor, fixture.Pod("v").Priority(10).On("n1").Obj(), fwk.QueueSkip},
		"a pod on another node":       {preemptor, fixture.Pod("v").On("n2").Obj(), fwk.QueueSkip},
		"a pod without a node":        {preemptor, fixture.Pod("v").Obj(), fwk.QueueSkip},
		"a victim of another pod":     {fixture.Pod("q").UID("q").Priority(10), fixture.Pod("v").On("n1").Obj(), fwk.QueueSkip},
		"an object that is not a pod": {preemptor, fixture.Node("n1").Obj(), fwk.Queue},
	} {
		t.Run(name, func(t *testing.T) {
			hint, err := events[0].QueueingHintFn(klog.Background(), c.pod.Obj(), c.deleted, nil)
			if _, is := c.deleted.(*v1.Pod); hint != c.want || (err == nil) != is {
				t.Errorf("hint %v (%v), want %v", hint, err, c.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	number := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		percentage, absolute *int32
		want                 []string
	}{
		"the limits are valid":                           {number(100), number(0), nil},
		"no percentage is valid with an absolute number": {number(0), number(1), nil},
		"a percentage above 100 is invalid":              {number(101), number(1), []string{"args.minCandidateNodesPercentage"}},
		"negative values are both invalid":               {number(-1), number(-1), []string{"args.minCandidateNodesPercentage", "args.minCandidateNodesAbsolute"}},
		"both values zero are invalid":                   {number(0), number(0), []string{"args.minCandidateNodesPercentage"}},
		"arguments without defaults are incomplete":      {nil, nil, []string{"args.minCandidateNodesPercentage", "args.minCandidateNodesAbsolute"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			args := &configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: c.percentage, MinCandidateNodesAbsolute: c.absolute}
			for _, err := range defaultpreemption.Validate(args, field.NewPath("args")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
