package queue

import (
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

func TestMatches(t *testing.T) {
	on := func(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: resource, ActionType: action}
	}
	for sentence, c := range map[string]struct {
		registered, happened fwk.ClusterEvent
		want                 bool
	}{
		"the same is covered":                           {nodeAdd, nodeAdd, true},
		"another action is not":                         {nodeAdd, nodeLabel, false},
		"another resource is not":                       {nodeAdd, podDelete, false},
		"one action of several is covered":              {on(fwk.Node, fwk.Add|fwk.UpdateNodeLabel), nodeLabel, true},
		"all actions cover each":                        {on(fwk.Node, fwk.All), nodeLabel, true},
		"any update covers a particular one":            {on(fwk.Node, fwk.Update), nodeLabel, true},
		"a plain update is more than a particular one":  {on(fwk.Pod, fwk.UpdatePodLabel), on(fwk.AssignedPod, fwk.Update), false},
		"a pod is an assigned pod":                      {on(fwk.Pod, fwk.Delete), podDelete, true},
		"a pod is the pod itself":                       {podLabels, podLabel, true},
		"an assigned pod is not any pod":                {podDelete, on(fwk.Pod, fwk.Delete), false},
		"everything covers all":                         {on(fwk.WildCard, fwk.All), csiNodeAdd, true},
		"everything in one action covers that":          {on(fwk.WildCard, fwk.Add), nodeAdd, true},
		"a wildcard that happens is covered by no less": {nodeAdd, ForceActivate, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := matches(c.registered, c.happened); got != c.want {
				t.Errorf("matches(%v, %v) = %v", c.registered.Label(), c.happened.Label(), got)
			}
		})
	}
}

func TestEvaluateHints(t *testing.T) {
	w := newTestEnv(t)
	good, bad := fixture.Node("good").Obj(), fixture.Node("bad").Obj()
	me, other := pod("a"), pod("b")
	is := func(names ...string) sets.Set[string] { return sets.New(names...) }
	for sentence, c := range map[string]struct {
		rejectors, pending sets.Set[string]
		event              event
		want               queueingStrategy
	}{
		"who was refused by nobody is always worth it": {event: event{ClusterEvent: csiNodeAdd}, want: queueAfterBackoff},
		"who was refused by one without hints waits":   {rejectors: is("Nobody"), event: event{ClusterEvent: nodeAdd}},
		"no hint function means yes":                   {rejectors: is("Fit"), event: event{ClusterEvent: nodeAdd}, want: queueAfterBackoff},
		"a hint function decides for":                  {rejectors: is("Picky"), event: event{ClusterEvent: nodeAdd, newObj: good}, want: queueAfterBackoff},
		"a hint function decides against":              {rejectors: is("Picky"), event: event{ClusterEvent: nodeAdd, newObj: bad}},
		"a hint function that fails means yes":         {rejectors: is("Broken"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff},
		"one yes among several is enough":              {rejectors: is("Picky", "Fit"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff},
		"a Pending plugin's yes skips the backoff":     {pending: is("Fit"), event: event{ClusterEvent: nodeAdd}, want: queueImmediately},
		"a Pending plugin's no leaves it to the others": {
			rejectors: is("Fit"), pending: is("Picky"), event: event{ClusterEvent: nodeAdd, newObj: bad}, want: queueAfterBackoff,
		},
		"a wildcard wakes whoever it finds":       {rejectors: is("Nobody"), event: event{ClusterEvent: ForceActivate}, want: queueAfterBackoff},
		"a wildcard for another pod does not":     {rejectors: is("Nobody"), event: event{ClusterEvent: ForceActivate, newObj: other}},
		"a wildcard for this pod does":            {rejectors: is("Nobody"), event: event{ClusterEvent: ForceActivate, newObj: me}, want: queueAfterBackoff},
		"a change of the pod itself does":         {rejectors: is("Label"), event: event{ClusterEvent: podLabel, newObj: me}, want: queueAfterBackoff},
		"a change of another pod itself does not": {rejectors: is("Label"), event: event{ClusterEvent: podLabel, newObj: other}},
		"an event for some other pods does not": {
			rejectors: is("Fit"), event: event{ClusterEvent: nodeAdd, only: func(p *v1.Pod) bool { return p.UID != me.UID }},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &Pod{pod: me, profile: "p", rejectors: c.rejectors, pending: c.pending}
			if got := w.rules.evaluateHints(logr.Discard(), p, me, c.event); got != c.want {
				t.Errorf("worth %d, want %d", got, c.want)
			}
		})
	}
}
