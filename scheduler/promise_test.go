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
func TestANominationIsKeptThoughTheStatusLacksIt(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.apply("one")
		defer w.startLeading()()
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))})
		w.create(webPod("a"))
		w.want("what a was told", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, "")
		w.a.Nominates = nil
		w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		w.want("what a is promised", w.cache.NominatedNode(webPod("a").UID), "n1")
		w.want("what a was told in the end", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, "n1")
	}, node("n1"))
}

// No change of the pod's status need tell of it: it may never have told of the
// promise, or not be written when that ends.
func TestTheEndOfANominationWakesOtherPods(t *testing.T) {
	forbidden := fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))}
	for sentence, c := range map[string]struct {
		told           string
		making, ending []fakecluster.Fault
	}{
		"that only memory knew":           {making: []fakecluster.Fault{forbidden}},
		"of which the status still tells": {told: "n1", ending: []fakecluster.Fault{forbidden}},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.SetStatus("Filter", probe.Reject("full"))
				w.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
				promise := func(node string) {
					w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
				}
				w.apply("one")
				defer w.startLeading()()
				w.create(webPod("b"))
				promise("n1")
				w.cluster.Inject(c.making...)
				w.create(webPod("a"))
				w.want("what a was promised", w.cache.NominatedNode(webPod("a").UID), "n1")
				w.want("what a was told", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, c.told)
				w.events.take()
				promise("")
				w.cluster.Inject(c.ending...)
				w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": webPod("a")})
				synctest.Wait()
				w.want("what a was told", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, c.told)
				if tried := strings.Join(w.events.take(), "\n"); !strings.Contains(tried, "b Warning FailedScheduling") {
					t.Errorf("b was not woken by the room that is free again; what happened: %s", tried)
				}
			}, node("n1"))
		})
	}
}
