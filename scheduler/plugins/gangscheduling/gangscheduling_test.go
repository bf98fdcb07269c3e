package gangscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/test/support/fixture"
)

// handle records which pods the plugin activates and allows.
type handle struct {
	fwk.Handle
	groups    *podgroups.Store
	activated []string
	waiting   map[types.UID]*waitingPod
}

func (h *handle) PodGroups() *podgroups.Store { return h.groups }

func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for name := range pods {
		h.activated = append(h.activated, name)
	}
}

func (h *handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if p, ok := h.waiting[uid]; ok {
		return p
	}
	return nil
}

// LeavesPermit implements framework.PermitHandle.
func (h *handle) LeavesPermit(uid types.UID, _, message string) bool {
	p := h.waiting[uid]
	if p == nil || !p.elsewhere {
		return false
	}
	p.ended = message
	return true
}

type waitingPod struct {
	fwk.WaitingPod
	// elsewhere says that it waits for plugins of another Generation, and ended why it does
	// not any more.
	elsewhere      bool
	allowed, ended string
}

func (p *waitingPod) Allow(plugin string) { p.allowed = plugin }

func newPlugin(t *testing.T) (*Plugin, *handle) {
	h := &handle{groups: podgroups.NewStore(), waiting: map[types.UID]*waitingPod{}}
	plugin, err := New(t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), h
}

func member(name, group string) *v1.Pod {
	return fixture.Pod(name).Mutate(func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }).Obj()
}

// podGroup returns a PodGroup; minCount 0 makes it no gang.
func podGroup(name string, minCount int32) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	if minCount > 0 {
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	}
	return group
}

func TestPreEnqueue(t *testing.T) {
	p, h := newPlugin(t)
	h.groups.SetPodGroup(podgroups.Native, podGroup("three", 3))
	h.groups.SetPodGroup(podgroups.Native, podGroup("basic", 0))
	for _, pod := range []*v1.Pod{member("a", "three"), member("b", "three"), member("c", "basic"), member("d", "none")} {
		h.groups.SetPod(pod)
	}
	expect := func(pod *v1.Pod, want string) {
		t.Helper()
		if got := p.PreEnqueue(t.Context(), pod).Message(); got != want {
			t.Errorf("%s: %q, want %q", pod.Name, got, want)
		}
	}
	expect(fixture.Pod("alone").Obj(), "")
	expect(member("a", "three"), "the pod's group has 2 of at least 3 pods")
	expect(member("c", "basic"), "")
	expect(member("d", "none"), "the PodGroup default/none does not exist")
	h.groups.SetPod(member("e", "three"))
	expect(member("a", "three"), "")
}

func TestPlacementFeasible(t *testing.T) {
	for name, test := range map[string]struct {
		minCount             int32
		scheduled, remaining int
		want                 fwk.Code
	}{
		"enough fit":                        {3, 3, 2, fwk.Success},
		"enough may fit yet":                {3, 1, 2, fwk.Wait},
		"enough cannot fit any more":        {3, 1, 1, fwk.Unschedulable},
		"one is enough of a group, no gang": {0, 1, 0, fwk.Success},
		"none of a group that is no gang":   {0, 0, 0, fwk.Unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlugin(t)
			info := &framework.PodGroupInfo{PodGroup: podGroup("g", test.minCount)}
			status := p.PlacementFeasible(t.Context(), nil, info, framework.PlacementProgress{Remaining: test.remaining, Scheduled: test.scheduled})
			if status.Code() != test.want {
				t.Errorf("%v, want %v", status, test.want)
			}
			if !status.IsSuccess() && !strings.HasSuffix(status.Message(), fmt.Sprintf(": %d scheduled, %d remaining", test.scheduled, test.remaining)) {
				t.Errorf("message %q", status.Message())
			}
		})
	}
}

// The first of two pods waits, and the second lets both go on.
func TestPermit(t *testing.T) {
	p, h := newPlugin(t)
	h.groups.SetPodGroup(podgroups.Native, podGroup("two", 2))
	first, second := member("first", "two"), member("second", "two")
	h.groups.SetPod(first)
	h.groups.SetPod(second)
	h.groups.AssumePod(first)
	status, timeout := p.Permit(t.Context(), nil, first, "n")
	if !status.IsWait() || timeout != 5*time.Minute {
		t.Errorf("the first: %v for %v, want to wait for five minutes", status, timeout)
	}
	if len(h.activated) != 1 || h.activated[0] != "second" {
		t.Errorf("activated %v, want the other pod", h.activated)
	}
	waiting := &waitingPod{}
	h.waiting[first.UID] = waiting
	h.groups.AssumePod(second)
	if status, _ := p.Permit(t.Context(), nil, second, "n"); !status.IsSuccess() {
		t.Errorf("the second: %v", status)
	}
	if waiting.allowed != Name {
		t.Errorf("the first was allowed by %q", waiting.allowed)
	}
	*waiting = waitingPod{elsewhere: true}
	if status, _ := p.Permit(t.Context(), nil, second, "n"); !status.IsWait() || waiting.allowed != "" {
		t.Errorf("the second, after the profile has changed: %v, and the first was allowed by %q; want it to wait", status, waiting.allowed)
	}
	if waiting.ended != "the profile has changed since: the group is tried again" {
		t.Errorf("the first does not wait any more: %q", waiting.ended)
	}
	if status, _ := p.Permit(t.Context(), nil, fixture.Pod("alone").Obj(), "n"); !status.IsSuccess() {
		t.Errorf("a pod in no group: %v", status)
	}
	if status, _ := p.Permit(t.Context(), nil, member("a", "gone"), "n"); !status.IsError() {
		t.Errorf("a pod whose group is gone: %v, want an error", status)
	}
}

func TestHints(t *testing.T) {
	p, _ := newPlugin(t)
	events, err := p.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := member("a", "g")
	podUpdate := fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}
	wanting := func(minCount string) *v1.Pod {
		p := fixture.Pod("a").Obj()
		p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: "g", v1alpha1.AnnotationPodGroupMinCount: minCount}
		return p
	}
	for name, test := range map[string]struct {
		event          fwk.ClusterEvent
		oldObj, newObj any
		want           fwk.QueueingHint
	}{
		"another pod of the group":     {fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}, nil, member("b", "g"), fwk.Queue},
		"a pod of another group":       {fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}, nil, member("b", "h"), fwk.QueueSkip},
		"a pod in no group":            {fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, nil, fixture.Pod("b").Obj(), fwk.QueueSkip},
		"its PodGroup":                 {fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}, nil, podGroup("g", 3), fwk.Queue},
		"another PodGroup":             {fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}, nil, podGroup("h", 3), fwk.QueueSkip},
		"its PodGroup wants fewer":     {fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}, podGroup("g", 3), podGroup("g", 2), fwk.Queue},
		"its PodGroup wants more":      {fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}, podGroup("g", 3), podGroup("g", 4), fwk.QueueSkip},
		"another PodGroup wants fewer": {fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}, podGroup("h", 3), podGroup("h", 2), fwk.QueueSkip},
		"the pod wants fewer":          {podUpdate, wanting("3"), wanting("2"), fwk.Queue},
		"the pod wants the same":       {podUpdate, wanting("3"), wanting("3"), fwk.QueueSkip},
		"the pod of a PodGroup":        {podUpdate, member("a", "g"), member("a", "g"), fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			for _, registered := range events {
				if registered.Event != test.event {
					continue
				}
				hint, err := registered.QueueingHintFn(logr.Discard(), pod, test.oldObj, test.newObj)
				if err != nil || hint != test.want {
					t.Errorf("%v, %v, want %v", hint, err, test.want)
				}
				return
			}
			t.Errorf("%v is not registered", test.event)
		})
	}
}
