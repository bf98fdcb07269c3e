package schedulinggates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

func TestPreEnqueue(t *testing.T) {
	for sentence, c := range map[string]struct {
		pod  *v1.Pod
		want *fwk.Status
	}{
		"a pod without gates may queue": {pod: fixture.Pod("a").Obj()},
		"a pod with gates waits, and is told for which": {
			pod: fixture.Pod("a").SchedulingGate("quota").SchedulingGate("review").Obj(),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
				"waiting for scheduling gates: [quota review]"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := (&Plugin{}).PreEnqueue(t.Context(), c.pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}
