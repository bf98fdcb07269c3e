package interpodaffinity

import (
	"testing"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestHints(t *testing.T) {
	withAffinity := appPod("new", "db").RequirePodAffinity(affinityTerm("web"))
	withAntiAffinity := appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web"))
	plain := appPod("new", "db")
	withOwnGroup := appPod("new", "db").RequirePodAffinity(affinityTerm("db"))
	withSelectedAffinity := appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x")))
	withSelectedAntiAffinity := appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web", withNamespaceSelector("team", "x")))
	web, log := appPod("other", "web").On("n").Obj(), appPod("other", "log").On("n").Obj()
	none, a, b := fixture.Node("n").Obj(), fixture.Node("n").Label("zone", "a").Obj(), fixture.Node("n").Label("zone", "b").Obj()
	for name, c := range map[string]struct {
		pod           *fixture.PodBuilder
		resource      fwk.EventResource
		before, after any
		want          fwk.QueueingHint
	}{
		"a matching pod is added":                                              {pod: withAffinity, resource: fwk.AssignedPod, after: web, want: fwk.Queue},
		"a matching pod is deleted":                                            {pod: withAffinity, resource: fwk.AssignedPod, before: web},
		"a pod starts to match":                                                {pod: withAffinity, resource: fwk.AssignedPod, before: log, after: web, want: fwk.Queue},
		"a matching pod still matches":                                         {pod: withAffinity, resource: fwk.AssignedPod, before: web, after: appPod("other", "web").Label("x", "y").On("n").Obj()},
		"a pending pod matches":                                                {pod: withAffinity, resource: fwk.AssignedPod, after: appPod("other", "web").Obj()},
		"a nominated pod matches":                                              {pod: withAffinity, resource: fwk.AssignedPod, after: appPod("other", "web").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a pod that does not match is added":                                   {pod: withAffinity, resource: fwk.AssignedPod, after: log},
		"a matching pod is added in a selected namespace":                      {pod: withSelectedAffinity, resource: fwk.AssignedPod, after: appPod("shop/other", "web").On("n").Obj(), want: fwk.Queue},
		"a matching pod is added in another namespace":                         {pod: withSelectedAffinity, resource: fwk.AssignedPod, after: appPod("mail/other", "web").On("n").Obj()},
		"the last pod of the pod's group is deleted":                           {pod: withOwnGroup, resource: fwk.AssignedPod, before: appPod("other", "db").On("n").Obj(), want: fwk.Queue},
		"a pod that anti-affinity selects is deleted":                          {pod: withAntiAffinity, resource: fwk.AssignedPod, before: web, want: fwk.Queue},
		"a pod that anti-affinity selects is added":                            {pod: withAntiAffinity, resource: fwk.AssignedPod, after: web},
		"anti-affinity no longer selects a pod":                                {pod: withAntiAffinity, resource: fwk.AssignedPod, before: web, after: log, want: fwk.Queue},
		"a pod is deleted in a namespace that anti-affinity selects":           {pod: withSelectedAntiAffinity, resource: fwk.AssignedPod, before: appPod("shop/other", "web").On("n").Obj(), want: fwk.Queue},
		"a pod whose anti-affinity selects the pod is deleted":                 {pod: plain, resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("db")).On("n").Obj(), want: fwk.Queue},
		"a pod whose anti-affinity selects the pod's namespace is deleted":     {pod: appPod("shop/new", "db"), resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("n").Obj(), want: fwk.Queue},
		"a pod whose anti-affinity selects other pods is deleted":              {pod: plain, resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("web")).On("n").Obj()},
		"the pod's labels change":                                              {pod: plain, resource: fwk.TargetPod, before: plain.Obj(), after: plain.Obj(), want: fwk.Queue},
		"a node is added in a domain":                                          {pod: withAffinity, resource: fwk.Node, after: a, want: fwk.Queue},
		"a node is added without a domain":                                     {pod: withAffinity, resource: fwk.Node, after: none},
		"any node is added, for a pod with anti-affinity":                      {pod: withAntiAffinity, resource: fwk.Node, after: none, want: fwk.Queue},
		"any node is added, for a pod that anti-affinity of others may select": {pod: plain, resource: fwk.Node, after: none, want: fwk.Queue},
		"a node gets a domain":                                                 {pod: withAffinity, resource: fwk.Node, before: none, after: a, want: fwk.Queue},
		"a node changes its domain":                                            {pod: withAffinity, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node loses its domain, for a pod of a group":                        {pod: withOwnGroup, resource: fwk.Node, before: a, after: none, want: fwk.Queue},
		"a node is deleted, for a pod with anti-affinity":                      {pod: withAntiAffinity, resource: fwk.Node, before: a, want: fwk.Queue},
		"a node changes its domain, for a pod without terms":                   {pod: plain, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node loses its domain, for a pod with anti-affinity":                {pod: withAntiAffinity, resource: fwk.Node, before: a, after: none, want: fwk.Queue},
		"a node changes its domain, for a pod with anti-affinity":              {pod: withAntiAffinity, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"affinity starts to select a namespace": {
			pod: withSelectedAffinity, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "y").Obj(),
			after: fixture.Namespace("mail").Label("team", "x").Obj(), want: fwk.Queue,
		},
		"anti-affinity no longer selects a namespace": {
			pod: withSelectedAntiAffinity, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(),
			after: fixture.Namespace("mail").Obj(), want: fwk.Queue,
		},
		"a selected namespace is added":             {pod: withSelectedAffinity, resource: framework.Namespace, after: fixture.Namespace("new").Label("team", "x").Obj(), want: fwk.Queue},
		"a namespace that is not selected is added": {pod: withSelectedAffinity, resource: framework.Namespace, after: fixture.Namespace("new").Obj()},
		"a namespace that no term selects changes": {
			pod: withAffinity, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(), after: fixture.Namespace("mail").Obj(),
		},
		"a namespace that a term names changes": {
			pod:      appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"), withNamespaces("mail"))),
			resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(), after: fixture.Namespace("mail").Obj(),
		},
		"the labels of the pod's namespace change": {
			pod: plain, resource: framework.Namespace, before: fixture.Namespace("default").Label("team", "x").Obj(),
			after: fixture.Namespace("default").Obj(), want: fwk.Queue,
		},
		"the terms do not parse":                  {pod: appPod("new", "db").RequirePodAffinity(unparsableTerm()), resource: fwk.Node, after: a, want: fwk.Queue},
		"the event has an object of another kind": {pod: withAffinity, resource: fwk.Node, after: web, want: fwk.Queue},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlugin(t, nil, zonedCluster()...)
			events, err := p.EventsToRegister(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events {
				if event.Event.Resource != c.resource {
					continue
				}
				// A hint that returns an error counts as Queue.
				if got, _ := event.QueueingHintFn(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want {
					t.Errorf("hint %v, want %v", got, c.want)
				}
			}
		})
	}
}
