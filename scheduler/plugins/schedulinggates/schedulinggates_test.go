package schedulinggates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestPreEnqueue(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want *fwk.Status
	}{
		"a pod without gates is not gated": {pod: fixture.Pod("a").Obj()},
		"a pod with gates is gated, with a message that lists them": {
			pod: fixture.Pod("a").SchedulingGate("quota").SchedulingGate("review").Obj(),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
				"waiting for scheduling gates: [quota review]"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Plugin{}).PreEnqueue(t.Context(), c.pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}
