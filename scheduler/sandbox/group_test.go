package sandbox_test

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/support/fixture"
)

// A group is decided from cached verdicts, each of which is right for the pods that were
// decided before, and leaves nothing behind.
func TestAGroupIsDecidedFromTheCache(t *testing.T) {
	profile := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	profile.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
	blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: plugins.InTree()})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	s, err := sandbox.New(t.Context(), sandbox.Options{Blueprint: blueprint, Registry: plugins.InTree(), Recheck: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		s.SetNode(nil, fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", "8", "pods", "20").Obj())
	}
	attempt := func(count int, minCount int32) sandbox.GroupOutcome {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprint("group-", count)}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
		var pods []*v1.Pod
		for i := range count {
			pods = append(pods, fixture.Pod(fmt.Sprint("p-", count, "-", i)).Requests("cpu", "4").SchedulerName("batch").Mutate(func(p *v1.Pod) {
				p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group.Name}
			}).Obj())
		}
		return s.AttemptGroup(t.Context(), group, pods)
	}
	for range 2 { // the first leaves nothing behind
		outcome := attempt(12, 12)
		if outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		perNode := map[string]int{}
		for _, m := range outcome.Members {
			perNode[m.Placement.Node]++
		}
		for node, n := range perNode {
			if n != 2 {
				t.Errorf("%d pods on %s, want two on each of six nodes: %v", n, node, perNode)
			}
		}
	}
	if outcome := attempt(13, 13); !errors.As(outcome.Err, new(*cycle.GroupUnschedulableError)) {
		t.Errorf("thirteen pods: %v, want that too few fit", outcome.Err)
	}
	if stats := s.EquivalenceCache().Stats(); stats.Mismatches > 0 || stats.Cached < 30 {
		t.Errorf("%+v: want most pods decided from the cache, and no wrong verdict", stats)
	}
}
