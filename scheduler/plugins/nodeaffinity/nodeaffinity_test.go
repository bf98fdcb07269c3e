package nodeaffinity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func newNodeInfo(node *v1.Node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

func newPlugin(t *testing.T, added *v1.NodeAffinity) *Plugin {
	t.Helper()
	built, err := New(t.Context(), &configv1.NodeAffinityArgs{AddedAffinity: added}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built.(*Plugin)
}

// ssdAffinity returns an affinity that a profile may add.
func ssdAffinity() *v1.NodeAffinity {
	return &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))},
		},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
			{Weight: 5, Preference: fixture.NodeSelectorTerm(fixture.Exists("fast"))},
		},
	}
}

func TestPreFilter(t *testing.T) {
	for name, c := range map[string]struct {
		pod   *fixture.PodBuilder
		added *v1.NodeAffinity
		names sets.Set[string]
		want  *fwk.Status
	}{
		"a pod without node affinity skips Filter":          {pod: fixture.Pod("a"), want: fwk.NewStatus(fwk.Skip)},
		"a profile with an added affinity does not skip it": {pod: fixture.Pod("a"), added: ssdAffinity()},
		"a node selector does not skip it":                  {pod: fixture.Pod("a").NodeSelector("zone", "a")},
		"a preference alone skips Filter": {
			pod: fixture.Pod("a").PreferNodeAffinity(1, fixture.NodeSelectorTerm(fixture.Exists("x"))), want: fwk.NewStatus(fwk.Skip),
		},
		"a term that names a node narrows the search": {
			pod: fixture.Pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n1")), names: sets.New("n1"),
		},
		"the names of several terms are united": {
			pod:   fixture.Pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n1"), fixture.NodeNameTerm("n2")),
			names: sets.New("n1", "n2"),
		},
		"a term that names no node does not narrow the search": {
			pod: fixture.Pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n1"), fixture.NodeSelectorTerm(fixture.Exists("x"))),
		},
		"the names within a term are intersected": {
			pod: fixture.Pod("a").RequireNodeAffinity(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
				fixture.In("metadata.name", "n1"), fixture.In("metadata.name", "n2"),
			}}),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pod affinity terms conflict"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, status := newPlugin(t, c.added).PreFilter(t.Context(), framework.NewCycleState(), c.pod.Obj(), nil)
			if diff := cmp.Diff(c.want, status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			var names sets.Set[string]
			if result != nil {
				names = result.NodeNames
			}
			if diff := cmp.Diff(c.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	mismatch := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match Pod's node affinity/selector")
	enforced := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match scheduler-enforced node affinity")
	for name, c := range map[string]struct {
		pod   *fixture.PodBuilder
		node  *fixture.NodeBuilder
		added *v1.NodeAffinity
		want  *fwk.Status
	}{
		"the node selector matches":        {pod: fixture.Pod("a").NodeSelector("zone", "a"), node: fixture.Node("n").Label("zone", "a")},
		"the node selector does not match": {pod: fixture.Pod("a").NodeSelector("zone", "a"), node: fixture.Node("n"), want: mismatch},
		"one of two terms is enough": {
			pod:  fixture.Pod("a").RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.Exists("x")), fixture.NodeSelectorTerm(fixture.Exists("zone"))),
			node: fixture.Node("n").Label("zone", "a"),
		},
		"selector and affinity must both match": {
			pod:  fixture.Pod("a").NodeSelector("zone", "a").RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.Exists("x"))),
			node: fixture.Node("n").Label("zone", "a"), want: mismatch,
		},
		"an affinity without terms matches nothing": {
			pod: fixture.Pod("a").RequireNodeAffinity(), node: fixture.Node("n"), want: mismatch,
		},
		"a term that does not parse matches nothing": {
			pod:  fixture.Pod("a").RequireNodeAffinity(fixture.NodeSelectorTerm(v1.NodeSelectorRequirement{Key: "x", Operator: "Like"})),
			node: fixture.Node("n").Label("x", ""), want: mismatch,
		},
		"a node is found by its name": {
			pod: fixture.Pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n")), node: fixture.Node("n"),
		},
		"the profile's affinity is evaluated first": {
			pod: fixture.Pod("a").NodeSelector("zone", "a"), node: fixture.Node("n"), added: ssdAffinity(), want: enforced,
		},
		"the profile's affinity applies to a pod without node affinity": {
			pod: fixture.Pod("a"), node: fixture.Node("n").Label("disk", "ssd"), added: ssdAffinity(),
		},
	} {
		for _, prepared := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", without PreFilter too"}[prepared], func(t *testing.T) {
				p, state := newPlugin(t, c.added), framework.NewCycleState()
				if prepared {
					p.PreFilter(t.Context(), state, c.pod.Obj(), nil)
				}
				got := p.Filter(t.Context(), state, c.pod.Obj(), newNodeInfo(c.node.Obj()))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestScore(t *testing.T) {
	zone := func(weight int32) *fixture.PodBuilder {
		return fixture.Pod("a").PreferNodeAffinity(weight, fixture.NodeSelectorTerm(fixture.In("zone", "a")))
	}
	for name, c := range map[string]struct {
		pod   *fixture.PodBuilder
		added *v1.NodeAffinity
		skips bool
		fails bool
		want  []int64
	}{
		"neither the pod nor the profile prefers anything": {pod: fixture.Pod("a"), skips: true},
		"the profile's preferred terms count":              {pod: fixture.Pod("a"), added: ssdAffinity(), want: []int64{0, 0, 100}},
		"the pod prefers a zone":                           {pod: zone(3), want: []int64{100, 0, 100}},
		"the weights of both add up":                       {pod: zone(3), added: ssdAffinity(), want: []int64{37, 0, 100}},
		"a term that no node matches scores 0 everywhere":  {pod: fixture.Pod("a").PreferNodeAffinity(9, fixture.NodeSelectorTerm(fixture.Exists("x"))), want: []int64{0, 0, 0}},
		"an empty list of preferences does not skip": {
			pod: fixture.Pod("a").Mutate(func(pod *v1.Pod) {
				pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{},
				}}
			}),
			want: []int64{0, 0, 0},
		},
		"a preference that does not parse is an error": {
			pod:   fixture.Pod("a").PreferNodeAffinity(9, fixture.NodeSelectorTerm(v1.NodeSelectorRequirement{Key: "x", Operator: "Like"})),
			fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*v1.Node{
				fixture.Node("n1").Label("zone", "a").Obj(),
				fixture.Node("n2").Label("zone", "b").Obj(),
				fixture.Node("n3").Label("zone", "a").Label("fast", "").Obj(),
			}
			p, state := newPlugin(t, c.added), framework.NewCycleState()
			status := p.PreScore(t.Context(), state, c.pod.Obj(), nil)
			if status.IsSkip() != c.skips || status.IsError() != c.fails {
				t.Fatalf("PreScore returns %v", status)
			}
			if c.skips || c.fails {
				return
			}
			var scores fwk.NodeScoreList
			for _, node := range nodes {
				score, status := p.Score(t.Context(), state, c.pod.Obj(), newNodeInfo(node))
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				scores = append(scores, fwk.NodeScore{Name: node.Name, Score: score})
			}
			p.ScoreExtensions().NormalizeScore(t.Context(), state, c.pod.Obj(), scores)
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

func TestIsSchedulableAfterNodeChange(t *testing.T) {
	pod := fixture.Pod("a").NodeSelector("zone", "a").Obj()
	inZone := fixture.Node("n").Label("zone", "a").Label("disk", "ssd").Obj()
	elsewhere := fixture.Node("n").Label("zone", "b").Label("disk", "ssd").Obj()
	slow := fixture.Node("n").Label("zone", "a").Obj()
	for name, c := range map[string]struct {
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new node that matches requeues the pod":                   {after: inZone, want: fwk.Queue},
		"a new node that does not match does not":                    {after: elsewhere, want: fwk.QueueSkip},
		"a new node that the profile rejects does not":               {after: slow, want: fwk.QueueSkip},
		"a node that starts to match requeues the pod":               {before: elsewhere, after: inZone, want: fwk.Queue},
		"a node that the profile no longer rejects requeues the pod": {before: slow, after: inZone, want: fwk.Queue},
		"a node that matched before does not":                        {before: inZone, after: inZone, want: fwk.QueueSkip},
		"a node that no longer matches does not":                     {before: inZone, after: elsewhere, want: fwk.QueueSkip},
		"an object of another kind is an error":                      {after: pod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newPlugin(t, ssdAffinity()).isSchedulableAfterNodeChange(klog.Background(), pod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	added := ssdAffinity()
	added.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Like"
	added.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Key = "no label"
	args := &configv1.NodeAffinityArgs{AddedAffinity: added}

	var fields []string
	for _, err := range Validate(args, field.NewPath("args")) {
		fields = append(fields, err.Field)
	}
	want := []string{
		"args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
		"args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].key",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields with errors (-want +got):\n%s", diff)
	}
	if _, err := New(t.Context(), args, nil); err == nil || !strings.Contains(err.Error(), "addedAffinity") {
		t.Errorf("New returns error %v, want one that names addedAffinity", err)
	}
	if _, err := New(t.Context(), nil, nil); err == nil {
		t.Error("New accepts no arguments")
	}
}
