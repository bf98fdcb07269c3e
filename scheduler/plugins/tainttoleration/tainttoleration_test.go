package tainttoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func newNodeInfo(node *v1.Node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

func TestFilter(t *testing.T) {
	refused := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had untolerated taint(s)")
	pod := fixture.Pod("a").Tolerate("gpu", "yes", v1.TaintEffectNoSchedule).Obj()
	for sentence, c := range map[string]struct {
		node *fixture.NodeBuilder
		want *fwk.Status
	}{
		"without taints nobody is kept off":  {node: fixture.Node("n")},
		"a tolerated taint keeps nobody off": {node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoSchedule)},
		"advice is not an order":             {node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule)},
		"one taint too many is a refusal": {
			node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoSchedule).Taint("x", "", v1.TaintEffectNoSchedule),
			want: refused,
		},
		"a taint that evicts refuses as well": {
			node: fixture.Node("n").Taint("gpu", "yes", v1.TaintEffectNoExecute), want: refused,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := (&Plugin{}).Filter(t.Context(), framework.NewCycleState(), pod, newNodeInfo(c.node.Obj()))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore(t *testing.T) {
	advised := func(name string, keys ...string) *v1.Node {
		b := fixture.Node(name)
		for _, key := range keys {
			b.Taint(key, "", v1.TaintEffectPreferNoSchedule)
		}
		return b.Obj()
	}
	for sentence, c := range map[string]struct {
		pod   *v1.Pod
		nodes []*v1.Node
		want  []int64
	}{
		"nodes without advice are all best": {
			pod: fixture.Pod("a").Obj(), nodes: []*v1.Node{advised("n1"), advised("n2")}, want: []int64{100, 100},
		},
		"each piece of advice costs its share of the most there is": {
			pod:   fixture.Pod("a").Obj(),
			nodes: []*v1.Node{advised("n1"), advised("n2", "x"), advised("n3", "x", "y", "z")}, want: []int64{100, 67, 0},
		},
		"advice that the pod tolerates costs nothing": {
			pod:   fixture.Pod("a").Tolerate("x", "", v1.TaintEffectPreferNoSchedule).Obj(),
			nodes: []*v1.Node{advised("n1", "x"), advised("n2", "x", "y")}, want: []int64{100, 0},
		},
		"a toleration of every effect covers advice": {
			pod:   fixture.Pod("a").Toleration(v1.Toleration{Key: "x", Operator: v1.TolerationOpExists}).Obj(),
			nodes: []*v1.Node{advised("n1", "x"), advised("n2", "y")}, want: []int64{100, 0},
		},
		"a toleration of the order does not cover the advice": {
			pod:   fixture.Pod("a").Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(),
			nodes: []*v1.Node{advised("n1"), advised("n2", "x")}, want: []int64{100, 0},
		},
		"a taint that is an order is not advice": {
			pod:   fixture.Pod("a").Obj(),
			nodes: []*v1.Node{fixture.Node("n1").Taint("x", "", v1.TaintEffectNoSchedule).Obj(), advised("n2")}, want: []int64{100, 100},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
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
	free := fixture.Node("n").Taint("gpu", "", v1.TaintEffectNoSchedule).Obj()
	closed := fixture.Node("n").Taint("x", "", v1.TaintEffectNoSchedule).Obj()
	for sentence, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new node without a hindrance is worth a try": {hint: isSchedulableAfterNodeChange, after: free, want: fwk.Queue},
		"a new node with one is not":                    {hint: isSchedulableAfterNodeChange, after: closed, want: fwk.QueueSkip},
		"a node that loses it is worth a try":           {hint: isSchedulableAfterNodeChange, before: closed, after: free, want: fwk.Queue},
		"a node that never had one is not":              {hint: isSchedulableAfterNodeChange, before: free, after: free, want: fwk.QueueSkip},
		"a node that gets one is not":                   {hint: isSchedulableAfterNodeChange, before: free, after: closed, want: fwk.QueueSkip},
		"any new toleration is worth a try":             {hint: isSchedulableAfterPodTolerationChange, before: pod, after: pod, want: fwk.Queue},
		"an event about something else is an error":     {hint: isSchedulableAfterNodeChange, after: pod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := c.hint(klog.Background(), pod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
