package podgroups

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestKeyOf(t *testing.T) {
	group := "native"
	for name, test := range map[string]struct {
		pod  func(*v1.Pod)
		want Key
	}{
		"no group":               {func(*v1.Pod) {}, Key{}},
		"spec.schedulingGroup":   {func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }, Key{Native, "default", "native"}},
		"an empty field":         {func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{} }, Key{}},
		"Berth's annotation":     {func(p *v1.Pod) { p.Annotations = map[string]string{"berth.dev/pod-group": "g"} }, Key{Annotation, "default", "g"}},
		"the coscheduling label": {func(p *v1.Pod) { p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"} }, Key{Coscheduling, "default", "g"}},
		"the label of Kueue":     {func(p *v1.Pod) { p.Labels = map[string]string{"kueue.x-k8s.io/pod-group-name": "g"} }, Key{Kueue, "default", "g"}},
		"the annotation before the field, which the Job controller sets": {func(p *v1.Pod) {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
			p.Annotations = map[string]string{"berth.dev/pod-group": "g"}
		}, Key{Annotation, "default", "g"}},
		"a label before the field": {func(p *v1.Pod) {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
			p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"}
		}, Key{Coscheduling, "default", "g"}},
	} {
		t.Run(name, func(t *testing.T) {
			key, ok := KeyOf(fixture.Pod("a").Mutate(test.pod).Obj())
			if key != test.want || ok != (test.want != Key{}) {
				t.Errorf("%v, %v, want %v", key, ok, test.want)
			}
		})
	}
}

func kueuePod(name, count string) *v1.Pod {
	return fixture.Pod(name).Priority(7).Mutate(func(p *v1.Pod) {
		p.Labels = map[string]string{"kueue.x-k8s.io/pod-group-name": "g"}
		if count != "" {
			p.Annotations = map[string]string{"kueue.x-k8s.io/pod-group-total-count": count}
		}
	}).Obj()
}

// A group of pods that declare it has a PodGroup with what they say.
func TestADeclaredGroup(t *testing.T) {
	key := Key{Kueue, "default", "g"}
	for name, test := range map[string]struct {
		pods    []*v1.Pod
		min     int
		failure string
	}{
		"agreeing": {[]*v1.Pod{kueuePod("a", "2"), kueuePod("b", "2")}, 2, ""},
		"differing": {[]*v1.Pod{kueuePod("a", "2"), kueuePod("b", "3")}, 1,
			"the pods of a group must agree on how many are scheduled together: pod a says 2, pod b says 3"},
		"none": {[]*v1.Pod{kueuePod("a", "")}, 1,
			"metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Required value: must be the number of pods that are scheduled together"},
		"no number": {[]*v1.Pod{kueuePod("a", "0")}, 1,
			`metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Invalid value: "0": must be a whole number of at least 1`},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			for _, pod := range test.pods {
				s.SetPod(pod)
			}
			g := s.Group(key)
			failure := ""
			if g.Err != nil {
				failure = g.Err.Error()
			}
			if failure != test.failure || g.MinCount() != test.min {
				t.Errorf("minimum %d, error %q, want %d and %q", g.MinCount(), failure, test.min, test.failure)
			}
			if g.Err == nil && *g.PodGroup.Spec.Priority != 7 {
				t.Errorf("priority %d, want that of the pods", *g.PodGroup.Spec.Priority)
			}
		})
	}
}

// memberOf returns a pod that names a native group.
func memberOf(group, name string) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} })
}

// The state of a group follows its pods: unscheduled, assumed, assigned, and gone.
func TestTheStateOfAGroup(t *testing.T) {
	s, name := NewStore(), "g"
	key := Key{Native, "default", name}
	pod := func(name, node string) *v1.Pod {
		b := memberOf(key.Name, name)
		if node != "" {
			b = b.On(node)
		}
		return b.Obj()
	}
	type state struct{ All, Scheduled, Assumed, Unscheduled int }
	expect := func(want state) {
		t.Helper()
		g := s.Group(key)
		if diff := cmp.Diff(want, state{g.All, len(g.Scheduled), len(g.Assumed), len(g.Unscheduled)}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		listed, err := s.PodGroupStates().Get("default", name)
		if want.All == 0 {
			if err == nil {
				t.Error("an empty group is listed")
			}
			return
		}
		if listed.AllPodsCount() != want.All || len(listed.AllPods()) != want.All || listed.ScheduledPodsCount() != want.Scheduled ||
			len(listed.AssignedPods()) != want.Scheduled-want.Assumed {
			t.Errorf("plugins see %v", listed)
		}
	}
	expect(state{})
	s.SetPod(pod("a", ""))
	s.SetPod(pod("b", ""))
	expect(state{2, 0, 0, 2})
	s.AssumePod(pod("a", "n"))
	expect(state{2, 1, 1, 1})
	s.SetPod(pod("a", "")) // an update before the Binding is seen
	expect(state{2, 1, 1, 1})
	s.ForgetPod(pod("a", "n"))
	expect(state{2, 0, 0, 2})
	s.AssumePod(pod("a", "n"))
	s.SetPod(pod("a", "n"))
	expect(state{2, 1, 0, 1})
	s.ForgetPod(pod("a", "n")) // too late
	expect(state{2, 1, 0, 1})
	s.RemovePod(pod("b", ""))
	s.AssumePod(pod("b", "n")) // it was deleted meanwhile
	expect(state{1, 1, 0, 0})
	s.RemovePod(pod("a", "n"))
	expect(state{})
	if len(s.groups) != 0 {
		t.Errorf("%d groups are left", len(s.groups))
	}
	s.SetPodGroup(Native, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	if _, err := s.PodGroups().Get("default", name); err != nil {
		t.Error(err)
	}
	s.RemovePodGroup(key)
	if _, err := s.PodGroups().Get("default", name); err == nil || len(s.groups) != 0 {
		t.Errorf("a PodGroup that was removed is listed, or its group is left: %v", s.groups)
	}
}

func TestFromCoscheduling(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want int32
	}{
		"a minimum":               {map[string]any{"minMember": int64(5)}, 5},
		"no minimum":              {map[string]any{}, 1},
		"a minimum below one":     {map[string]any{"minMember": int64(-1)}, 1},
		"a minimum of a bad type": {map[string]any{"minMember": "many"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": test.spec}}
			object.SetNamespace("default")
			object.SetName("g")
			podGroup := FromCoscheduling(object)
			if got := podGroup.Spec.SchedulingPolicy.Gang.MinCount; got != test.want || SourceOf(podGroup) != Coscheduling {
				t.Errorf("minCount %d, source %s, want %d of %s", got, SourceOf(podGroup), test.want, Coscheduling)
			}
		})
	}
}

// Within an attempt, each pod of a group is activated once for each time that it comes.
func TestToActivate(t *testing.T) {
	s, name := NewStore(), "g"
	key := Key{Native, "default", name}
	pod := func(name string) *v1.Pod { return memberOf(key.Name, name).Obj() }
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.ToActivate(pod("a"))))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("no group")
	for _, name := range []string{"a", "b", "c"} {
		s.SetPod(pod(name))
	}
	s.BeginAttempt(key)
	s.AssumePod(pod("a"))
	expect("the first waits", "b", "c")
	s.AssumePod(pod("b"))
	expect("the second waits")
	s.SetPod(pod("d"))
	s.ForgetPod(pod("a"))
	s.SetPod(pod("c"))
	expect("one came, one came back, and one was updated", "a", "d")
	s.BeginAttempt(key)
	expect("the next attempt", "a", "c", "d")
	s.SetPod(pod("e"))
	s.RemovePod(pod("e"))
	if left := s.groups[key].inactive.Len(); left > 0 {
		t.Errorf("%d pods are left that went", left)
	}
	expect("one came and went")
}
