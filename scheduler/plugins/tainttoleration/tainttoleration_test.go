package tainttoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func newNodeInfo(node *v1.Node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

func TestFilter(t *testing.T) {
	refused := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had untolerated taint(s)")
	pod := fixture.Pod("a").Tolerate("gpu", "yes", v1.TaintEffectNoSchedule).Obj()
	for name, c := range map[string]struct {
		node *fixture.NodeBuilder
		want *fwk.Status
	}{
		"a node without taints is accepted":         {node: fixture.Node("n")},
		"a node with a tolerated taint is accepted": {node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoSchedule)},
		"a PreferNoSchedule taint does not reject":  {node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule)},
		"one untolerated taint of several rejects": {
			node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoSchedule).Taint("x", "", v1.TaintEffectNoSchedule),
			want: refused,
		},
		"a NoExecute taint rejects as well": {
			node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoExecute), want: refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Plugin{}).Filter(t.Context(), framework.NewCycleState(), pod, newNodeInfo(c.node.Obj()))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore(t *testing.T) {
	nodeWithTaints := func(name string, keys ...string) *v1.Node {
		b := fixture.Node(name)
		for _, key := range keys {
			b.Taint(key, "", v1.TaintEffectPreferNoSchedule)
		}
		return b.Obj()
	}
	for name, c := range map[string]struct {
		pod   *v1.Pod
		nodes []*v1.Node
		want  []int64
	}{
		"nodes without PreferNoSchedule taints score 100": {
			pod: fixture.Pod("a").Obj(), nodes: []*v1.Node{nodeWithTaints("n1"), nodeWithTaints("n2")}, want: []int64{100, 100},
		},
		"each taint costs its share of the largest number": {
			pod:   fixture.Pod("a").Obj(),
			nodes: []*v1.Node{nodeWithTaints("n1"), nodeWithTaints("n2", "x"), nodeWithTaints("n3", "x", "y", "z")}, want: []int64{100, 67, 0},
		},
		"a tolerated taint costs nothing": {
			pod:   fixture.Pod("a").Tolerate("x", "", v1.TaintEffectPreferNoSchedule).Obj(),
			nodes: []*v1.Node{nodeWithTaints("n1", "x"), nodeWithTaints("n2", "x", "y")}, want: []int64{100, 0},
		},
		"a toleration of every effect covers PreferNoSchedule": {
			pod:   fixture.Pod("a").Toleration(v1.Toleration{Key: "x", Operator: v1.TolerationOpExists}).Obj(),
			nodes: []*v1.Node{nodeWithTaints("n1", "x"), nodeWithTaints("n2", "y")}, want: []int64{100, 0},
		},
		"a toleration of NoSchedule does not cover PreferNoSchedule": {
			pod:   fixture.Pod("a").Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(),
			nodes: []*v1.Node{nodeWithTaints("n1"), nodeWithTaints("n2", "x")}, want: []int64{100, 0},
		},
		"a NoSchedule taint does not count": {
			pod:   fixture.Pod("a").Obj(),
			nodes: []*v1.Node{fixture.Node("n1").Taint("x", "", v1.TaintEffectNoSchedule).Obj(), nodeWithTaints("n2")}, want: []int64{100, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, state := &Plugin{}, framework.NewCycleState()
			if status := plugin.PreScore(t.Context(), state, c.pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			var scores fwk.NodeScoreList
			for _, node := range c.nodes {
				score, status := plugin.Score(t.Context(), state, c.pod, newNodeInfo(node))
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				scores = append(scores, fwk.NodeScore{Name: node.Name, Score: score})
			}
			plugin.ScoreExtensions().NormalizeScore(t.Context(), state, c.pod, scores)
			var got []int64
			for _, node := range scores {
				got = append(got, node.Score)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScoreWithoutPreScoreIsAnError(t *testing.T) {
	_, status := (&Plugin{}).Score(t.Context(), framework.NewCycleState(), fixture.Pod("a").Obj(), newNodeInfo(fixture.Node("n").Obj()))
	if !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}

func TestHints(t *testing.T) {
	pod := fixture.Pod("a").Tolerate("gpu", "", v1.TaintEffectNoSchedule).Obj()
	tolerated := fixture.Node("n").Taint("gpu", "", v1.TaintEffectNoSchedule).Obj()
	untoleratedNode := fixture.Node("n").Taint("x", "", v1.TaintEffectNoSchedule).Obj()
	for name, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new node without an untolerated taint requeues the pod": {hint: isSchedulableAfterNodeChange, after: tolerated, want: fwk.Queue},
		"a new node with one does not":                             {hint: isSchedulableAfterNodeChange, after: untoleratedNode, want: fwk.QueueSkip},
		"a node that loses it requeues the pod":                    {hint: isSchedulableAfterNodeChange, before: untoleratedNode, after: tolerated, want: fwk.Queue},
		"a node that never had one does not":                       {hint: isSchedulableAfterNodeChange, before: tolerated, after: tolerated, want: fwk.QueueSkip},
		"a node that gets one does not":                            {hint: isSchedulableAfterNodeChange, before: tolerated, after: untoleratedNode, want: fwk.QueueSkip},
		"any new toleration requeues the pod":                      {hint: isSchedulableAfterPodTolerationChange, before: pod, after: pod, want: fwk.Queue},
		"an object of another kind is an error":                    {hint: isSchedulableAfterNodeChange, after: pod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.hint(klog.Background(), pod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
