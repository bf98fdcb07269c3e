package queue

import (
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestMatches(t *testing.T) {
	on := func(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: resource, ActionType: action}
	}
	for name, c := range map[string]struct {
		registered, happened fwk.ClusterEvent
		want                 bool
	}{
		"the same event is covered":                              {nodeAdd, nodeAdd, true},
		"another action is not covered":                          {nodeAdd, nodeLabel, false},
		"another resource is not covered":                        {nodeAdd, podDelete, false},
		"one of several registered actions is covered":           {on(fwk.Node, fwk.Add|fwk.UpdateNodeLabel), nodeLabel, true},
		"all actions cover each":                                 {on(fwk.Node, fwk.All), nodeLabel, true},
		"Update covers a specific update":                        {on(fwk.Node, fwk.Update), nodeLabel, true},
		"a specific update does not cover Update":                {on(fwk.Pod, fwk.UpdatePodLabel), on(fwk.AssignedPod, fwk.Update), false},
		"Pod covers AssignedPod":                                 {on(fwk.Pod, fwk.Delete), podDelete, true},
		"Pod covers TargetPod":                                   {podLabels, podLabel, true},
		"AssignedPod does not cover Pod":                         {podDelete, on(fwk.Pod, fwk.Delete), false},
		"a wildcard covers every event":                          {on(fwk.WildCard, fwk.All), csiNodeAdd, true},
		"a wildcard resource with one action covers that action": {on(fwk.WildCard, fwk.Add), nodeAdd, true},
		"only a wildcard covers a wildcard event":                {nodeAdd, ForceActivate, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matches(c.registered, c.happened); got != c.want {
				t.Errorf("matches(%v, %v) = %v", c.registered.Label(), c.happened.Label(), got)
			}
		})
	}
}

func TestEvaluateHints(t *testing.T) {
	w := newTestEnv(t)
	good, bad := fixture.Node("good").Obj(), fixture.Node("bad").Obj()
	self, other := pod("a"), pod("b")
	plugins := func(names ...string) sets.Set[string] { return sets.New(names...) }
	for name, c := range map[string]struct {
		rejectors, pending sets.Set[string]
		event              event
		want               queueingStrategy
	}{
		"a pod without rejectors is queued":             {event: event{ClusterEvent: csiNodeAdd}, want: queueAfterBackoff},
		"a pod whose rejector has no hints is skipped":  {rejectors: plugins("Other"), event: event{ClusterEvent: nodeAdd}},
		"a nil hint function means Queue":               {rejectors: plugins("Fit"), event: event{ClusterEvent: nodeAdd}, want: queueAfterBackoff},
		"a hint function returns Queue":                 {rejectors: plugins("Picky"), event: event{ClusterEvent: nodeAdd, newObj: good}, want: queueAfterBackoff},
		"a hint function returns QueueSkip":             {rejectors: plugins("Picky"), event: event{ClusterEvent: nodeAdd, newObj: bad}},
		"a hint function that fails counts as Queue":    {rejectors: plugins("Broken"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff},
		"one Queue among several results is enough":     {rejectors: plugins("Picky", "Fit"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff},
		"Queue from a Pending plugin skips the backoff": {pending: plugins("Fit"), event: event{ClusterEvent: nodeAdd}, want: queueImmediately},
		"QueueSkip from a Pending plugin leaves it to the others": {
			rejectors: plugins("Fit"), pending: plugins("Picky"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff,
		},
		"a wildcard queues every pod":         {rejectors: plugins("Other"), event: event{ClusterEvent: ForceActivate}, want: queueAfterBackoff},
		"a wildcard for another pod does not": {rejectors: plugins("Other"), event: event{ClusterEvent: ForceActivate, newObj: other}},
		"a wildcard for this pod does":        {rejectors: plugins("Other"), event: event{ClusterEvent: ForceActivate, newObj: self}, want: queueAfterBackoff},
		"an update of the pod does":           {rejectors: plugins("Label"), event: event{ClusterEvent: podLabel, newObj: self}, want: queueAfterBackoff},
		"an update of another pod does not":   {rejectors: plugins("Label"), event: event{ClusterEvent: podLabel, newObj: other}},
		"an event that is limited to other pods does not": {
			rejectors: plugins("Fit"), event: event{ClusterEvent: nodeAdd, only: func(p *v1.Pod) bool { return p.UID != self.UID }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Entity{pod: self, profile: "p", rejectors: c.rejectors, pending: c.pending}
			if got := w.rules.evaluateHints(logr.Discard(), p, self, c.event); got != c.want {
				t.Errorf("strategy %d, want %d", got, c.want)
			}
		})
	}
}
