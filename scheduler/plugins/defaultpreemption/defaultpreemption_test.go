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
	"github.com/berthdev/berth/test/fixture"
)

// house lends itself: it answers as it is told, and remembers what it was
// asked to carry out.
type fakePreemptor struct {
	fwk.Handle
	plan       *framework.PreemptionPlan
	err        error
	inProgress bool
	request    framework.PreemptionRequest
	executed   []*framework.PreemptionPlan
	nominated  *v1.Pod
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
func (h *fakePreemptor) Execute(_ context.Context, _ fwk.Handle, plan *framework.PreemptionPlan) {
	h.executed = append(h.executed, plan)
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
	hopeless := &framework.FitError{NumAllNodes: 3, Diagnosis: framework.NewDiagnosis()}
	hopeless.Diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
	nominated := func(node string) *fwk.PostFilterResult {
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
	}
	for sentence, c := range map[string]struct {
		house   *fakePreemptor
		want    *fwk.PostFilterResult
		code    fwk.Code
		message string
		carried int
	}{
		"a plan is carried out, and its node promised": {
			house: &fakePreemptor{plan: &framework.PreemptionPlan{Node: "n1", Victims: []*v1.Pod{fixture.Pod("a").Obj(), fixture.Pod("b").Obj()}}},
			want:  nominated("n1"), code: fwk.Success, carried: 1,
			message: "preemption: found a potential placement for pod on node n1, preempting 2 victims",
		},
		"when nobody can help, an older promise ends": {
			house: &fakePreemptor{err: hopeless}, want: nominated(""), code: fwk.Unschedulable,
			message: "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		"a pod that may not preempt keeps what it was promised": {
			house: &fakePreemptor{err: &framework.IneligibleError{Reason: "not eligible due to preemptionPolicy=Never."}}, code: fwk.Unschedulable,
			message: "preemption: not eligible due to preemptionPolicy=Never.",
		},
		"what goes wrong is an error": {
			house: &fakePreemptor{err: errors.New("the pod is gone")}, code: fwk.Error, message: "preemption: the pod is gone",
		},
		"nothing is planned while something is under way": {
			house: &fakePreemptor{inProgress: true}, code: fwk.Unschedulable,
			message: "preemption: waiting for the preemption for this pod to be finished",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, status := newPlugin(t, c.house).PostFilter(t.Context(), framework.NewCycleState(), fixture.Pod("p").Obj(), framework.NewNodeToStatus())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if status.Code() != c.code || status.Message() != c.message {
				t.Errorf("status %v %q, want %v %q", status.Code(), status.Message(), c.code, c.message)
			}
			if len(c.house.executed) != c.carried {
				t.Errorf("%d plans carried out, want %d", len(c.house.executed), c.carried)
			}
			if c.house.err != nil && (c.house.request.MinPercentage != 10 || c.house.request.MinAbsolute != 100) {
				t.Errorf("asked for %d%% and %d candidates, want the defaults", c.house.request.MinPercentage, c.house.request.MinAbsolute)
			}
		})
	}
}

func TestPreEnqueue(t *testing.T) {
	for sentence, c := range map[string]struct {
		handle fwk.Handle
		want   *fwk.Status
	}{
		"a pod whose victims are being told waits": {
			handle: &fakePreemptor{inProgress: true},
			want:   fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished"),
		},
		"any other pod may queue":                          {handle: &fakePreemptor{}},
		"any pod may queue where nobody can be evicted":    {handle: nil},
		"any pod may queue under a handle that lends none": {handle: struct{ fwk.Handle }{}},
	} {
		t.Run(sentence, func(t *testing.T) {
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
	for sentence, c := range map[string]struct {
		pod  *fixture.PodBuilder
		left any
		want fwk.QueueingHint
	}{
		"a victim":                    {preemptor, fixture.Pod("v").On("n1").Obj(), fwk.Queue},
		"a pod that it cannot evict":  {preemptor, fixture.Pod("v").Priority(10).On("n1").Obj(), fwk.QueueSkip},
		"a pod of another node":       {preemptor, fixture.Pod("v").On("n2").Obj(), fwk.QueueSkip},
		"a pod without a node":        {preemptor, fixture.Pod("v").Obj(), fwk.QueueSkip},
		"a victim, for somebody else": {fixture.Pod("q").UID("q").Priority(10), fixture.Pod("v").On("n1").Obj(), fwk.QueueSkip},
		"something that is not a pod": {preemptor, fixture.Node("n1").Obj(), fwk.Queue},
	} {
		t.Run(sentence, func(t *testing.T) {
			hint, err := events[0].QueueingHintFn(klog.Background(), c.pod.Obj(), c.left, nil)
			if _, is := c.left.(*v1.Pod); hint != c.want || (err == nil) != is {
				t.Errorf("hint %v (%v), want %v", hint, err, c.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	number := func(n int32) *int32 { return &n }
	for sentence, c := range map[string]struct {
		percentage, absolute *int32
		want                 []string
	}{
		"the bounds are allowed":                           {number(100), number(0), nil},
		"no percentage is allowed beside a number":         {number(0), number(1), nil},
		"a percentage above 100 is refused":                {number(101), number(1), []string{"args.minCandidateNodesPercentage"}},
		"negative values are refused, each":                {number(-1), number(-1), []string{"args.minCandidateNodesPercentage", "args.minCandidateNodesAbsolute"}},
		"both zero are refused: nobody would be found":     {number(0), number(0), []string{"args.minCandidateNodesPercentage"}},
		"arguments that were not defaulted are incomplete": {nil, nil, []string{"args.minCandidateNodesPercentage", "args.minCandidateNodesAbsolute"}},
	} {
		t.Run(sentence, func(t *testing.T) {
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
