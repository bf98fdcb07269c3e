package podtopologyspread

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// hint asks what the plugin registered for a resource.
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
	for sentence, c := range map[string]struct {
		resource      fwk.EventResource
		pod           *fixture.PodBuilder
		before, after any
		want          fwk.QueueingHint
	}{
		"a pod that is counted came":                 {resource: fwk.AssignedPod, after: counted, want: fwk.Queue},
		"a pod that is counted went":                 {resource: fwk.AssignedPod, before: counted, want: fwk.Queue},
		"a pod became one that is counted":           {resource: fwk.AssignedPod, before: other, after: counted, want: fwk.Queue},
		"a pod stayed one that is counted":           {resource: fwk.AssignedPod, before: counted, after: webPod("other").Label("x", "y").On("n").Obj()},
		"a pod that is not counted went":             {resource: fwk.AssignedPod, before: other},
		"a pod of another namespace went":            {resource: fwk.AssignedPod, before: fixture.Pod("shop/other").Label("app", "web").On("n").Obj()},
		"a pod without a node went":                  {resource: fwk.AssignedPod, before: webPod("other").Obj()},
		"a pod that was nominated went":              {resource: fwk.AssignedPod, before: webPod("other").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a pod that is counted is to leave":          {resource: framework.TerminatingPod, before: counted, after: webPod("other").On("n").Terminating().Obj(), want: fwk.Queue},
		"a pod that is not counted is to leave":      {resource: framework.TerminatingPod, before: other, after: fixture.Pod("other").On("n").Terminating().Obj()},
		"the pod left the ranks":                     {resource: fwk.TargetPod, before: pod.Obj(), after: fixture.Pod("new").Spread(zoneConstraint()).Obj(), want: fwk.Queue},
		"the pod got a toleration that nobody minds": {resource: fwk.TargetPod, before: pod.Obj(), after: webPod("new").Spread(zoneConstraint()).Tolerate("x", "", v1.TaintEffectNoSchedule).Obj()},
		"the pod got one that opens nodes to counting": {
			resource: fwk.TargetPod, pod: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))),
			before: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))).Obj(),
			after:  webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))).Tolerate("x", "", v1.TaintEffectNoSchedule).Obj(),
			want:   fwk.Queue,
		},
		"the pod is compared with others than before": {
			resource: fwk.TargetPod,
			before:   webPod("new").Label("rev", "1").Spread(zoneConstraint(withMatchLabelKeys("rev"))).Obj(),
			after:    webPod("new").Label("rev", "2").Spread(zoneConstraint(withMatchLabelKeys("rev"))).Obj(), want: fwk.Queue,
		},
		"the pod's new labels are no service's": {
			resource: fwk.TargetPod, before: webPod("new").Obj(), after: fixture.Pod("new").Label("app", "x").Obj(), want: fwk.Queue,
		},
		"a node with the label came":             {resource: fwk.Node, after: a, want: fwk.Queue},
		"a node without it came":                 {resource: fwk.Node, after: fixture.Node("n").Obj()},
		"a node with the label went":             {resource: fwk.Node, before: a, want: fwk.Queue},
		"a node without it went":                 {resource: fwk.Node, before: fixture.Node("n").Obj()},
		"a node got the label":                   {resource: fwk.Node, before: fixture.Node("n").Obj(), after: a, want: fwk.Queue},
		"a node changed its domain":              {resource: fwk.Node, before: a, after: b, want: fwk.Queue},
		"a node lost a taint":                    {resource: fwk.Node, before: tainted, after: a, want: fwk.Queue},
		"a node changed in what nobody looks at": {resource: fwk.Node, before: a, after: fixture.Node("n").Label("zone", "a").Label("x", "y").Obj()},
		"a node is not counted any more": {
			resource: fwk.Node, pod: webPod("new").NodeSelector("disk", "ssd").Spread(zoneConstraint()),
			before: fixture.Node("n").Label("zone", "a").Label("disk", "ssd").Obj(), after: a, want: fwk.Queue,
		},
		"the constraints do not parse":             {resource: fwk.Node, pod: webPod("new").Spread(zoneConstraint(withSelector(unparsableSelector()))), after: a, want: fwk.Queue},
		"the event is about something else":        {resource: fwk.Node, after: counted, want: fwk.Queue},
		"a service that selects the pod came":      {resource: framework.Service, pod: webPod("new"), after: fixture.Service("web", "app", "web"), want: fwk.Queue},
		"a service stopped selecting the pod":      {resource: framework.Service, pod: webPod("new"), before: fixture.Service("web", "app", "web"), after: fixture.Service("web"), want: fwk.Queue},
		"a service of other pods came":             {resource: framework.Service, pod: webPod("new"), after: fixture.Service("web", "app", "db")},
		"a service of another namespace came":      {resource: framework.Service, pod: webPod("new"), after: fixture.Service("shop/web", "app", "web")},
		"a service of a pod with constraints came": {resource: framework.Service, after: fixture.Service("web", "app", "web")},
		"the pod's controller came":                {resource: framework.ReplicaSet, pod: webPod("new").Owner("ReplicaSet", "web"), after: fixture.ReplicaSet("web", "app", "web"), want: fwk.Queue},
		"another controller came":                  {resource: framework.ReplicaSet, pod: webPod("new").Owner("ReplicaSet", "db"), after: fixture.ReplicaSet("web", "app", "web")},
		"a controller of another kind came":        {resource: framework.StatefulSet, pod: webPod("new").Owner("ReplicaSet", "web"), after: fixture.StatefulSet("web", "app", "web")},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, _ := newPlugin(t, argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), fixture.Service("web", "app", "web"))
			if c.pod == nil {
				c.pod = pod
			}
			// A hint that fails counts as Queue.
			if got, _ := registeredHint(t, p, c.resource)(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want {
				t.Errorf("hint %v, want %v", got, c.want)
			}
		})
	}
}

func TestSoftDefaultsRegisterNoServiceEvents(t *testing.T) {
	p, _ := newPlugin(t, nil)
	if registeredHint(t, p, framework.Service) != nil {
		t.Error("services wake pods that soft defaults cannot refuse")
	}
}
