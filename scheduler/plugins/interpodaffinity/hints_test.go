package interpodaffinity

import (
	"testing"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestHints(t *testing.T) {
	friendly := appPod("new", "db").RequirePodAffinity(affinityTerm("web"))
	hostile := appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web"))
	plain := appPod("new", "db")
	group := appPod("new", "db").RequirePodAffinity(affinityTerm("db"))
	chosen := appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x")))
	shunned := appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web", withNamespaceSelector("team", "x")))
	web, log := appPod("other", "web").On("n").Obj(), appPod("other", "log").On("n").Obj()
	none, a, b := fixture.Node("n").Obj(), fixture.Node("n").Label("zone", "a").Obj(), fixture.Node("n").Label("zone", "b").Obj()
	for sentence, c := range map[string]struct {
		pod           *fixture.PodBuilder
		resource      fwk.EventResource
		before, after any
		want          fwk.QueueingHint
	}{
		"a friend came":                            {pod: friendly, resource: fwk.AssignedPod, after: web, want: fwk.Queue},
		"a friend went":                            {pod: friendly, resource: fwk.AssignedPod, before: web},
		"a pod became a friend":                    {pod: friendly, resource: fwk.AssignedPod, before: log, after: web, want: fwk.Queue},
		"a friend stayed one":                      {pod: friendly, resource: fwk.AssignedPod, before: web, after: appPod("other", "web").Label("x", "y").On("n").Obj()},
		"a friend waits itself":                    {pod: friendly, resource: fwk.AssignedPod, after: appPod("other", "web").Obj()},
		"a friend is nominated":                    {pod: friendly, resource: fwk.AssignedPod, after: appPod("other", "web").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a stranger came":                          {pod: friendly, resource: fwk.AssignedPod, after: log},
		"a friend came in a namespace of the team": {pod: chosen, resource: fwk.AssignedPod, after: appPod("shop/other", "web").On("n").Obj(), want: fwk.Queue},
		"one came in a namespace of another team":  {pod: chosen, resource: fwk.AssignedPod, after: appPod("mail/other", "web").On("n").Obj()},
		"the last of the pod's own kind went":      {pod: group, resource: fwk.AssignedPod, before: appPod("other", "db").On("n").Obj(), want: fwk.Queue},
		"a foe went":                               {pod: hostile, resource: fwk.AssignedPod, before: web, want: fwk.Queue},
		"a foe came":                               {pod: hostile, resource: fwk.AssignedPod, after: web},
		"a foe became a stranger":                  {pod: hostile, resource: fwk.AssignedPod, before: web, after: log, want: fwk.Queue},
		"a foe went from a namespace of the team":  {pod: shunned, resource: fwk.AssignedPod, before: appPod("shop/other", "web").On("n").Obj(), want: fwk.Queue},
		"a pod that kept the pod away went":        {pod: plain, resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("db")).On("n").Obj(), want: fwk.Queue},
		"a pod that kept its namespace away went":  {pod: appPod("shop/new", "db"), resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("n").Obj(), want: fwk.Queue},
		"a pod that kept others away went":         {pod: plain, resource: fwk.AssignedPod, before: appPod("other", "log").RequirePodAntiAffinity(affinityTerm("web")).On("n").Obj()},
		"the pod's labels changed":                 {pod: plain, resource: fwk.TargetPod, before: plain.Obj(), after: plain.Obj(), want: fwk.Queue},
		"a node came into a domain":                {pod: friendly, resource: fwk.Node, after: a, want: fwk.Queue},
		"a node came into none":                    {pod: friendly, resource: fwk.Node, after: none},
		"any node came, for a pod with foes":       {pod: hostile, resource: fwk.Node, after: none, want: fwk.Queue},
		"any node came, for a pod that is shunned": {pod: plain, resource: fwk.Node, after: none, want: fwk.Queue},
		"a node got a domain":                      {pod: friendly, resource: fwk.Node, before: none, after: a, want: fwk.Queue},
		"a node changed its domain":                {pod: friendly, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node left its domain, others too":       {pod: group, resource: fwk.Node, before: a, after: none, want: fwk.Queue},
		"a node went with the foes on it":          {pod: hostile, resource: fwk.Node, before: a, want: fwk.Queue},
		"a node changed what shunning goes by":     {pod: plain, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node left the foes' domain":             {pod: hostile, resource: fwk.Node, before: a, after: none, want: fwk.Queue},
		"a node changed to another domain of foes": {pod: hostile, resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a namespace joined the team of the friends": {
			pod: chosen, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "y").Obj(),
			after: fixture.Namespace("mail").Label("team", "x").Obj(), want: fwk.Queue,
		},
		"a namespace left the team of the foes": {
			pod: shunned, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(),
			after: fixture.Namespace("mail").Obj(), want: fwk.Queue,
		},
		"a namespace of the team came": {pod: chosen, resource: framework.Namespace, after: fixture.Namespace("new").Label("team", "x").Obj(), want: fwk.Queue},
		"a namespace of no team came":  {pod: chosen, resource: framework.Namespace, after: fixture.Namespace("new").Obj()},
		"a namespace that no term selects changed": {
			pod: friendly, resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(), after: fixture.Namespace("mail").Obj(),
		},
		"a namespace that is named anyway changed": {
			pod:      appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"), withNamespaces("mail"))),
			resource: framework.Namespace, before: fixture.Namespace("mail").Label("team", "x").Obj(), after: fixture.Namespace("mail").Obj(),
		},
		"the pod's own namespace changed, which others may select": {
			pod: plain, resource: framework.Namespace, before: fixture.Namespace("default").Label("team", "x").Obj(),
			after: fixture.Namespace("default").Obj(), want: fwk.Queue,
		},
		"the terms do not parse":            {pod: appPod("new", "db").RequirePodAffinity(unparsableTerm()), resource: fwk.Node, after: a, want: fwk.Queue},
		"the event is about something else": {pod: friendly, resource: fwk.Node, after: web, want: fwk.Queue},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, _ := newPlugin(t, nil, zonedCluster()...)
			events, err := p.EventsToRegister(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events {
				if event.Event.Resource != c.resource {
					continue
				}
				// A hint that fails counts as Queue.
				if got, _ := event.QueueingHintFn(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want {
					t.Errorf("hint %v, want %v", got, c.want)
				}
			}
		})
	}
}
