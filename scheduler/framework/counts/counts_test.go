package counts_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/test/support/fixture"
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
		set  *counts.PodSet
		pod  *fixture.PodBuilder
		want bool
	}{
		"a set has a pod that its selector matches": {
			set: &counts.PodSet{Namespaces: sets.New("default"), Selector: web}, pod: fixture.Pod("a").Label("app", "web"), want: true,
		},
		"a set lacks a pod that its selector does not match": {
			set: &counts.PodSet{Namespaces: sets.New("default"), Selector: web}, pod: fixture.Pod("a").Label("app", "db"),
		},
		"a set lacks a pod of another namespace": {
			set: &counts.PodSet{Namespaces: sets.New("shop", "mail"), Selector: web}, pod: fixture.Pod("a").Label("app", "web"),
		},
		"nil namespaces mean all namespaces": {
			set: &counts.PodSet{Selector: web}, pod: fixture.Pod("shop/a").Label("app", "web"), want: true,
		},
		"empty namespaces mean no namespace": {
			set: &counts.PodSet{Namespaces: sets.New[string](), Selector: web}, pod: fixture.Pod("a").Label("app", "web"),
		},
		"a set lacks a terminating pod": {
			set: &counts.PodSet{Selector: web}, pod: fixture.Pod("a").Label("app", "web").Terminating(),
		},
		"a set with Terminating has a terminating pod": {
			set: &counts.PodSet{Selector: web, Terminating: true}, pod: fixture.Pod("a").Label("app", "web").Terminating(), want: true,
		},
		"both selectors of an intersection must match": {
			set: (&counts.PodSet{Selector: web}).Intersect(&counts.PodSet{Selector: selecting("tier=front")}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"an intersection has the namespaces of both sets": {
			set: (&counts.PodSet{Namespaces: sets.New("default", "shop"), Selector: web}).
				Intersect(&counts.PodSet{Namespaces: sets.New("default"), Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"), want: true,
		},
		"all namespaces and some namespaces intersect in some": {
			set: (&counts.PodSet{Selector: web}).Intersect(&counts.PodSet{Namespaces: sets.New("shop"), Selector: web}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"an intersection of many lacks a pod that one selector does not match": {
			set: (&counts.PodSet{Selector: web}).
				Intersect(&counts.PodSet{Selector: selecting("tier=front")}, &counts.PodSet{Selector: selecting("app!=db")}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"an intersection of many has a pod that all selectors match": {
			set: (&counts.PodSet{Selector: web}).
				Intersect(&counts.PodSet{Selector: selecting("tier=front")}, &counts.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web").Label("tier", "front"), want: true,
		},
		"an intersection of many with an empty selector matches nothing": {
			set: (&counts.PodSet{Selector: web}).
				Intersect(&counts.PodSet{Selector: labels.Nothing()}, &counts.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
		"an intersection with an empty selector matches nothing": {
			set: (&counts.PodSet{Selector: labels.Nothing()}).Intersect(&counts.PodSet{Selector: labels.Everything()}),
			pod: fixture.Pod("a").Label("app", "web"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.pod.Obj()
			if got := c.set.Has(pod); got != c.want {
				t.Errorf("Has says %v, want %v", got, c.want)
			}
			if got := c.set.CountOnNode(framework.NewNodeInfo(pod)) == 1; got != c.want {
				t.Errorf("CountOnNode counts it: %v, want %v", got, c.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	pod := fixture.Pod("a").NodeSelector("disk", "ssd").Tolerate("gpu", "", v1.TaintEffectNoSchedule).Obj()
	for name, c := range map[string]struct {
		scope *counts.Scope
		node  *fixture.NodeBuilder
		want  bool
	}{
		"a nil scope includes every node":                               {node: fixture.Node("n"), want: true},
		"a node without a required label is excluded":                   {scope: counts.NewScope(pod, []string{"zone"}, false, false), node: fixture.Node("n")},
		"an empty value of a required label is enough":                  {scope: counts.NewScope(pod, []string{"zone"}, false, false), node: fixture.Node("n").Label("zone", ""), want: true},
		"a node that the pod's nodeSelector does not match is excluded": {scope: counts.NewScope(pod, nil, true, false), node: fixture.Node("n")},
		"a node that the nodeSelector matches is included":              {scope: counts.NewScope(pod, nil, true, false), node: fixture.Node("n").Label("disk", "ssd"), want: true},
		"taints are ignored without HonorTaints":                        {scope: counts.NewScope(pod, nil, false, false), node: fixture.Node("n").Taint("x", "", v1.TaintEffectNoExecute), want: true},
		"HonorTaints excludes a node with an untolerated taint":         {scope: counts.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("x", "", v1.TaintEffectNoExecute)},
		"HonorTaints includes a node with a tolerated taint":            {scope: counts.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("gpu", "", v1.TaintEffectNoSchedule), want: true},
		"HonorTaints ignores PreferNoSchedule":                          {scope: counts.NewScope(pod, nil, false, true), node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.scope.Includes(c.node.Obj()); got != c.want {
				t.Errorf("includes the node: %v, want %v", got, c.want)
			}
		})
	}
}

// foreignHandle is a Handle whose lister has no Counts.
type foreignHandle struct{ fwk.Handle }

func (foreignHandle) SnapshotSharedLister() fwk.SharedLister { return nil }

func TestAHandleThatDoesNotCountIsAnError(t *testing.T) {
	for _, handle := range []fwk.Handle{nil, foreignHandle{}} {
		if _, err := counts.Of(handle); err == nil || !strings.HasPrefix(err.Error(), "handle: ") {
			t.Errorf("error %v, want one about the handle", err)
		}
	}
}
