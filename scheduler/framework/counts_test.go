package framework_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func selecting(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return selector
}

func TestPodSets(t *testing.T) {
	web := selecting("app=web")
	for name, c := range map[string]struct {
		set  *framework.PodSet
		pod  *fixture.PodBuilder
		want bool
	}{
		"a pod that is selected is in the set": {
			set: &framework.PodSet{Namespaces: sets.New("default"), Selector: web}, pod: fixture.Pod("a").Label("app", "web"), want: true,
		},
		"a pod that is not selected is not": {
			set: &framework.PodSet{Namespaces: sets.New("default"), Selector: web}, pod: fixture.Pod("a").Label("app", "db"),
		},
		"a pod of another namespace is not": {
			set: &framework.PodSet{Namespaces: sets.New("shop", "mail"), Selector: web}, pod: fixture.Pod("a").Label("app", "web"),
		},
		"no list of namespaces means all of them": {
			set: &framework.PodSet{Selector: web}, pod: fixture.Pod("shop/a").Label("app", "web"), want: true,
		},
		"an empty list means none": {
			set: &framework.PodSet{Namespaces: sets.New[string](), Selector: web}, pod: fixture.Pod("a").Label("app", "web"),
		},
		"a pod that is being deleted is not in the set": {
			set: &framework.PodSet{Selector: web}, pod: fixture.Pod("a").Label("app", "web").Terminating(),
		},
		"but it is where that is asked for": {
			set: &framework.PodSet{Selector: web, Terminating: true}, pod: fixture.Pod("a").Label("app", "web").Terminating(), want: true,
		},
		"both selectors of a joined set must match": {
			set: (&framework.PodSet{Selector: web}).Intersect(&framework.PodSet{Selector: selecting("tier=front")}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"a joined set has the namespaces that both have": {
			set: (&framework.PodSet{Namespaces: sets.New("default", "shop"), Selector: web}).
				Intersect(&framework.PodSet{Namespaces: sets.New("default"), Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"), want: true,
		},
		"every namespace joined with some is some": {
			set: (&framework.PodSet{Selector: web}).Intersect(&framework.PodSet{Namespaces: sets.New("shop"), Selector: web}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"a pod that one of many joined selectors does not match is not": {
			set: (&framework.PodSet{Selector: web}).
				Intersect(&framework.PodSet{Selector: selecting("tier=front")}, &framework.PodSet{Selector: selecting("app!=db")}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"one that all of them match is": {
			set: (&framework.PodSet{Selector: web}).
				Intersect(&framework.PodSet{Selector: selecting("tier=front")}, &framework.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web").Label("tier", "front"), want: true,
		},
		"what matches nothing matches nothing among many": {
			set: (&framework.PodSet{Selector: web}).
				Intersect(&framework.PodSet{Selector: labels.Nothing()}, &framework.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"what matches nothing matches nothing when joined": {
			set: (&framework.PodSet{Selector: labels.Nothing()}).Intersect(&framework.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.pod.Obj()
			if got := c.set.Has(pod); got != c.want {
				t.Errorf("Has says %v, want %v", got, c.want)
			}
			if got := c.set.CountOnNode(framework.NewNodeInfo(pod)) == 1; got != c.want {
				t.Errorf("On counts it: %v, want %v", got, c.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	pod := fixture.Pod("a").NodeSelector("disk", "ssd").Tolerate("gpu", "", v1.TaintEffectNoSchedule).Obj()
	for name, c := range map[string]struct {
		scope *framework.Scope
		node  *fixture.NodeBuilder
		want  bool
	}{
		"no scope holds every node":                    {node: fixture.Node("n"), want: true},
		"a node without a label is out":                {scope: framework.NewScope(pod, []string{"zone"}, false, false), node: fixture.Node("n")},
		"an empty label will do":                       {scope: framework.NewScope(pod, []string{"zone"}, false, false), node: fixture.Node("n").Label("zone", ""), want: true},
		"a node that the pod does not select is out":   {scope: framework.NewScope(pod, nil, true, false), node: fixture.Node("n")},
		"a node that it selects is in":                 {scope: framework.NewScope(pod, nil, true, false), node: fixture.Node("n").Label("disk", "ssd"), want: true},
		"a taint is passed over unless it is honoured": {scope: framework.NewScope(pod, nil, false, false), node: fixture.Node("n").Taint("x", "", v1.TaintEffectNoExecute), want: true},
		"a taint that keeps the pod off is honoured":   {scope: framework.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("x", "", v1.TaintEffectNoExecute)},
		"one that it tolerates does not keep it off":   {scope: framework.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("gpu", "", v1.TaintEffectNoSchedule), want: true},
		"advice keeps nobody off":                      {scope: framework.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.scope.Includes(c.node.Obj()); got != c.want {
				t.Errorf("holds the node: %v, want %v", got, c.want)
			}
		})
	}
}

// foreignHandle is a Handle whose lister has no Counts.
type foreignHandle struct{ fwk.Handle }

func (foreignHandle) SnapshotSharedLister() fwk.SharedLister { return nil }

func TestAHandleThatDoesNotCountIsAnError(t *testing.T) {
	for _, handle := range []fwk.Handle{nil, foreignHandle{}} {
		if _, err := framework.CountsOf(handle); err == nil || !strings.HasPrefix(err.Error(), "handle: ") {
			t.Errorf("error %v, want one about the handle", err)
		}
	}
}

func TestUntoleratedTaint(t *testing.T) {
	tolerations := fixture.Pod("a").
		Tolerate("a", "1", v1.TaintEffectNoSchedule).
		Toleration(v1.Toleration{Key: "b", Operator: v1.TolerationOpExists}).
		Toleration(v1.Toleration{Key: "n", Operator: v1.TolerationOpGt, Value: "5"}).Obj().Spec.Tolerations
	for name, c := range map[string]struct {
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
		t.Run(name, func(t *testing.T) {
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
