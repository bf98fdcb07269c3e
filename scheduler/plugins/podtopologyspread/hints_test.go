package podtopologyspread

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// registeredHint returns the hint that the plugin registered for a resource; nil
// without one.
func registeredHint(t *testing.T, p *Plugin, resource fwk.EventResource) fwk.QueueingHintFn {
	t.Helper()
	events, err := p.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.Event.Resource == resource {
			return event.QueueingHintFn
		}
	}
	return nil
}

func TestHints(t *testing.T) {
	pod := webPod("new").Spread(zoneConstraint())
	a, b := fixture.Node("n").Label("zone", "a").Obj(), fixture.Node("n").Label("zone", "b").Obj()
	tainted := fixture.Node("n").Label("zone", "a").Taint("x", "", v1.TaintEffectNoSchedule).Obj()
	other := fixture.Pod("other").On("n").Obj()
	counted := webPod("other").On("n").Obj()
	for name, c := range map[string]struct {
		resource      fwk.EventResource
		pod           *fixture.PodBuilder
		before, after any
		want          fwk.QueueingHint
	}{
		"a counted pod is added":                         {resource: fwk.AssignedPod, after: counted, want: fwk.Queue},
		"a counted pod is deleted":                       {resource: fwk.AssignedPod, before: counted, want: fwk.Queue},
		"a pod starts to be counted":                     {resource: fwk.AssignedPod, before: other, after: counted, want: fwk.Queue},
		"a pod is still counted":                         {resource: fwk.AssignedPod, before: counted, after: webPod("other").Label("x", "y").On("n").Obj()},
		"a pod that is not counted is deleted":           {resource: fwk.AssignedPod, before: other},
		"a pod of another namespace is deleted":          {resource: fwk.AssignedPod, before: fixture.Pod("shop/other").Label("app", "web").On("n").Obj()},
		"a pod without a node is deleted":                {resource: fwk.AssignedPod, before: webPod("other").Obj()},
		"a nominated pod is deleted":                     {resource: fwk.AssignedPod, before: webPod("other").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a counted pod starts to terminate":              {resource: framework.TerminatingPod, before: counted, after: webPod("other").On("n").Terminating().Obj(), want: fwk.Queue},
		"a pod that is not counted starts to terminate":  {resource: framework.TerminatingPod, before: other, after: fixture.Pod("other").On("n").Terminating().Obj()},
		"the pod is no longer counted itself":            {resource: fwk.TargetPod, before: pod.Obj(), after: fixture.Pod("new").Spread(zoneConstraint()).Obj(), want: fwk.Queue},
		"the pod gets a toleration that does not matter": {resource: fwk.TargetPod, before: pod.Obj(), after: webPod("new").Spread(zoneConstraint()).Tolerate("x", "", v1.TaintEffectNoSchedule).Obj()},
		"the pod gets a toleration that makes nodes count": {
			resource: fwk.TargetPod, pod: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))),
			before: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))).Obj(),
			after:  webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))).Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(),
			want:   fwk.Queue,
		},
		"the pod gets another value for a key in matchLabelKeys": {
			resource: fwk.TargetPod,
			before:   webPod("new").Label("rev", "1").Spread(zoneConstraint(withMatchLabelKeys("rev"))).Obj(),
			after:    webPod("new").Label("rev", "2").Spread(zoneConstraint(withMatchLabelKeys("rev"))).Obj(), want: fwk.Queue,
		},
		"no service selects the pod's new labels": {
			resource: fwk.TargetPod, before: webPod("new").Obj(), after: fixture.Pod("new").Label("app", "x").Obj(), want: fwk.Queue,
		},
		"a node with the label is added":   {resource: fwk.Node, after: a, want: fwk.Queue},
		"a node without it is added":       {resource: fwk.Node, after: fixture.Node("n").Obj()},
		"a node with the label is deleted": {resource: fwk.Node, before: a, want: fwk.Queue},
		"a node without it is deleted":     {resource: fwk.Node, before: fixture.Node("n").Obj()},
		"a node gets the label":            {resource: fwk.Node, before: fixture.Node("n").Obj(), after: a, want: fwk.Queue},
		"a node changes its domain":        {resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node loses a taint":             {resource: fwk.Node, before: tainted, after: a, want: fwk.Queue},
		"a node changes another label":     {resource: fwk.Node, before: a, after: fixture.Node("n").Label("zone", "a").Label("x", "y").Obj()},
		"a node no longer counts": {
			resource: fwk.Node, pod: webPod("new").NodeSelector("disk", "ssd").Spread(zoneConstraint()),
			before: fixture.Node("n").Label("zone", "a").Label("disk", "ssd").Obj(), after: a, want: fwk.Queue,
		},
		"the constraints do not parse":                  {resource: fwk.Node, pod: webPod("new").Spread(zoneConstraint(withSelector(unparsableSelector()))), after: a, want: fwk.Queue},
		"the event has an object of another kind":       {resource: fwk.Node, after: counted, want: fwk.Queue},
		"a service that selects the pod is added":       {resource: framework.Service, pod: webPod("new"), after: fixture.Service("web", "app", "web"), want: fwk.Queue},
		"a service no longer selects the pod":           {resource: framework.Service, pod: webPod("new"), before: fixture.Service("web", "app", "web"), after: fixture.Service("web"), want: fwk.Queue},
		"a service of other pods is added":              {resource: framework.Service, pod: webPod("new"), after: fixture.Service("web", "app", "db")},
		"a service of another namespace is added":       {resource: framework.Service, pod: webPod("new"), after: fixture.Service("shop/web", "app", "web")},
		"a service is added for a pod with constraints": {resource: framework.Service, after: fixture.Service("web", "app", "web")},
		"the pod's controller is added":                 {resource: framework.ReplicaSet, pod: webPod("new").Owner("ReplicaSet", "web"), after: fixture.ReplicaSet("web", "app", "web"), want: fwk.Queue},
		"another controller is added":                   {resource: framework.ReplicaSet, pod: webPod("new").Owner("ReplicaSet", "db"), after: fixture.ReplicaSet("web", "app", "web")},
		"a controller of another kind is added":         {resource: framework.StatefulSet, pod: webPod("new").Owner("ReplicaSet", "web"), after: fixture.StatefulSet("web", "app", "web")},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlugin(t, argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), fixture.Service("web", "app", "web"))
			if c.pod == nil {
				c.pod = pod
			}
			// A hint that returns an error counts as Queue.
			if got, _ := registeredHint(t, p, c.resource)(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want {
				t.Errorf("hint %v, want %v", got, c.want)
			}
		})
	}
}

func TestSoftDefaultsRegisterNoServiceEvents(t *testing.T) {
	p, _ := newPlugin(t, nil)
	if registeredHint(t, p, framework.Service) != nil {
		t.Error("services requeue pods that soft defaults cannot reject")
	}
}
