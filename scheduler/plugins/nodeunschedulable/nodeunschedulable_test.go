package nodeunschedulable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// patient tolerates cordons.
func tolerantPod() *v1.Pod {
	return fixture.Pod("a").Toleration(v1.Toleration{
		Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule,
	}).Obj()
}

func TestFilter(t *testing.T) {
	for sentence, c := range map[string]struct {
		pod  *v1.Pod
		node *v1.Node
		want *fwk.Status
	}{
		"an open node takes any pod": {pod: fixture.Pod("a").Obj(), node: fixture.Node("n").Obj()},
		"a cordoned node takes no pod": {
			pod: fixture.Pod("a").Obj(), node: fixture.Node("n").Unschedulable().Obj(),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were unschedulable"),
		},
		"a cordoned node takes a pod that tolerates cordons": {
			pod: tolerantPod(), node: fixture.Node("n").Unschedulable().Obj(),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			node := framework.NewNodeInfo()
			node.SetNode(c.node)
			got := (&Plugin{}).Filter(t.Context(), framework.NewCycleState(), c.pod, node)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHints(t *testing.T) {
	open, cordoned := fixture.Node("n").Obj(), fixture.Node("n").Unschedulable().Obj()
	impatient := fixture.Pod("a").Obj()
	for sentence, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new open node is worth a try":        {hint: isSchedulableAfterNodeChange, after: open, want: fwk.Queue},
		"a new cordoned node is not":            {hint: isSchedulableAfterNodeChange, after: cordoned, want: fwk.QueueSkip},
		"an uncordoned node is worth a try":     {hint: isSchedulableAfterNodeChange, before: cordoned, after: open, want: fwk.Queue},
		"a node that was open all along is not": {hint: isSchedulableAfterNodeChange, before: open, after: open, want: fwk.QueueSkip},
		"a node that is cordoned now is not":    {hint: isSchedulableAfterNodeChange, before: open, after: cordoned, want: fwk.QueueSkip},
		"a toleration of cordons is worth a try": {
			hint: isSchedulableAfterPodTolerationChange, before: impatient, after: tolerantPod(), want: fwk.Queue,
		},
		"another toleration is not": {
			hint: isSchedulableAfterPodTolerationChange, before: impatient,
			after: fixture.Pod("a").Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(), want: fwk.QueueSkip,
		},
		"an event about something else is an error": {hint: isSchedulableAfterNodeChange, after: impatient, want: fwk.Queue, wantErr: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := c.hint(klog.Background(), impatient, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
