package framework_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestEventObjects(t *testing.T) {
	node := fixture.Node("n1").Obj()
	for sentence, c := range map[string]struct {
		before, after       any
		wantBefore, wantAft *v1.Node
		wantErr             string
	}{
		"an addition has no object before": {after: node, wantAft: node},
		"a deletion has no object after":   {before: node, wantBefore: node},
		"an update has both":               {before: node, after: node, wantBefore: node, wantAft: node},
		"a missed deletion has the last known state": {
			before: cache.DeletedFinalStateUnknown{Key: "n1", Obj: node}, wantBefore: node,
		},
		"another kind is an error": {after: fixture.Pod("a").Obj(), wantErr: "a *v1.Pod, want a *v1.Node"},
	} {
		t.Run(sentence, func(t *testing.T) {
			before, after, err := framework.EventObjects[*v1.Node](c.before, c.after)
			if before != c.wantBefore || after != c.wantAft {
				t.Errorf("objects %v and %v, want %v and %v", before, after, c.wantBefore, c.wantAft)
			}
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("error %v, want one with %q", err, c.wantErr)
			}
		})
	}
}

func TestUntoleratedTaint(t *testing.T) {
	tolerations := fixture.Pod("a").
		Tolerate("a", "1", v1.TaintEffectNoSchedule).
		Toleration(v1.Toleration{Key: "b", Operator: v1.TolerationOpExists}).
		Toleration(v1.Toleration{Key: "n", Operator: v1.TolerationOpGt, Value: "5"}).Obj().Spec.Tolerations
	for sentence, c := range map[string]struct {
		node *fixture.NodeBuilder
		want string
	}{
		"a node without taints repels nobody":   {node: fixture.Node("n")},
		"the same key, value and effect is let": {node: fixture.Node("n").Taint("a", "1", v1.TaintEffectNoSchedule)},
		"another value is not":                  {node: fixture.Node("n").Taint("a", "2", v1.TaintEffectNoSchedule), want: "a"},
		"another effect is not":                 {node: fixture.Node("n").Taint("a", "1", v1.TaintEffectNoExecute), want: "a"},
		"a preference repels nobody":            {node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule)},
		"a toleration without effect lets all":  {node: fixture.Node("n").Taint("b", "9", v1.TaintEffectNoExecute)},
		"comparisons are off":                   {node: fixture.Node("n").Taint("n", "7", v1.TaintEffectNoSchedule), want: "n"},
		"the first one in the way is named": {
			node: fixture.Node("n").Taint("b", "", v1.TaintEffectNoSchedule).
				Taint("y", "", v1.TaintEffectNoSchedule).Taint("z", "", v1.TaintEffectNoSchedule),
			want: "y",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := ""
			if taint := framework.UntoleratedTaint(c.node.Obj().Spec.Taints, tolerations); taint != nil {
				got = taint.Key
			}
			if got != c.want {
				t.Errorf("taint %q in the way, want %q", got, c.want)
			}
		})
	}
}
