package scheduler

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/probe"
)

// A status is written beside the loop, and may not be written at all: that is no
// reason for a pod to forget whom it has evicted, and to begin anew.
func TestAPodThatKeepsItsPromiseKeepsItUntold(t *testing.T) {
	inTime(t, func(w *world) {
		w.a.Set("Filter", probe.Reject("full"))
		w.apply("one")
		defer w.lead()()
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))})
		w.create(web("a"))
		w.want("what a was told", w.cluster.Pod(web("a")).Status.NominatedNodeName, "")
		w.a.Nominates = nil
		w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": web("a")})
		synctest.Wait()
		w.want("what a is promised", w.cache.NominatedNode(web("a").UID), "n1")
		w.want("what a was told in the end", w.cluster.Pod(web("a")).Status.NominatedNodeName, "n1")
	}, node("n1"))
}

// No change of the pod's status need tell of it: it may never have told of the
// promise, or not be written when that ends.
func TestAPromiseIsTakenBackAloud(t *testing.T) {
	forbidden := fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))}
	for sentence, c := range map[string]struct {
		told           string
		making, ending []fakecluster.Fault
	}{
		"that only memory knew":           {making: []fakecluster.Fault{forbidden}},
		"of which the status still tells": {told: "n1", ending: []fakecluster.Fault{forbidden}},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.a.Set("Filter", probe.Reject("full"))
				w.a.Events = []fwk.ClusterEventWithHint{{Event: assignedPodDelete}}
				promise := func(node string) {
					w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
				}
				w.apply("one")
				defer w.lead()()
				w.create(web("b"))
				promise("n1")
				w.cluster.Inject(c.making...)
				w.create(web("a"))
				w.want("what a was promised", w.cache.NominatedNode(web("a").UID), "n1")
				w.want("what a was told", w.cluster.Pod(web("a")).Status.NominatedNodeName, c.told)
				w.events.take()
				promise("")
				w.cluster.Inject(c.ending...)
				w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": web("a")})
				synctest.Wait()
				w.want("what a was told", w.cluster.Pod(web("a")).Status.NominatedNodeName, c.told)
				if tried := strings.Join(w.events.take(), "\n"); !strings.Contains(tried, "b Warning FailedScheduling") {
					t.Errorf("b was not woken by the room that is free again; what happened: %s", tried)
				}
			}, node("n1"))
		})
	}
}
