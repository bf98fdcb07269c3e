package nodeunschedulable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// tolerantPod returns a pod that tolerates cordoned nodes.
func tolerantPod() *v1.Pod {
	return fixture.Pod("a").Toleration(v1.Toleration{
		Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule,
	}).Obj()
}

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		node *v1.Node
		want *fwk.Status
	}{
		"a node that is not cordoned accepts any pod": {pod: fixture.Pod("a").Obj(), node: fixture.Node("n").Obj()},
		"a cordoned node rejects a pod": {
			pod: fixture.Pod("a").Obj(), node: fixture.Node("n").Unschedulable().Obj(),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were unschedulable"),
		},
		"a cordoned node accepts a pod that tolerates the taint": {
			pod: tolerantPod(), node: fixture.Node("n").Unschedulable().Obj(),
		},
	} {
		t.Run(name, func(t *testing.T) {
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
	schedulable, cordoned := fixture.Node("n").Obj(), fixture.Node("n").Unschedulable().Obj()
	intolerantPod := fixture.Pod("a").Obj()
	for name, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new node that is not cordoned requeues the pod": {hint: isSchedulableAfterNodeChange, after: schedulable, want: fwk.Queue},
		"a new cordoned node does not":                     {hint: isSchedulableAfterNodeChange, after: cordoned, want: fwk.QueueSkip},
		"an uncordoned node requeues the pod":              {hint: isSchedulableAfterNodeChange, before: cordoned, after: schedulable, want: fwk.Queue},
		"a node that was not cordoned before does not":     {hint: isSchedulableAfterNodeChange, before: schedulable, after: schedulable, want: fwk.QueueSkip},
		"a node that is cordoned now does not":             {hint: isSchedulableAfterNodeChange, before: schedulable, after: cordoned, want: fwk.QueueSkip},
		"a toleration of the taint requeues the pod": {
			hint: isSchedulableAfterPodTolerationChange, before: intolerantPod, after: tolerantPod(), want: fwk.Queue,
		},
		"another toleration does not": {
			hint: isSchedulableAfterPodTolerationChange, before: intolerantPod,
			after: fixture.Pod("a").Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(), want: fwk.QueueSkip,
		},
		"an object of another kind is an error": {hint: isSchedulableAfterNodeChange, after: intolerantPod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.hint(klog.Background(), intolerantPod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
