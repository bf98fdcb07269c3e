package volumebinding

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// onItsWay is a cluster with a pod whose claim is to be bound on n1.
func clusterWithPod(more ...runtime.Object) []runtime.Object {
	return append(more, podWithClaims("a"), node1, fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi"))
}

// reserve tries the pod and reserves n1.
func (w *testEnv) reserve() attempt {
	w.t.Helper()
	a := w.evaluate(podWithClaims("a"), node1)
	w.expect("refusals", a.rejections, map[string]string{})
	if status := w.Reserve(w.ctx, a.state, a.pod, "n1"); !status.IsSuccess() {
		w.t.Fatal(status)
	}
	return a
}

// bind runs PreBind, and says how it ended and how long it took.
func (w *testEnv) bind(a attempt) (string, time.Duration) {
	w.t.Helper()
	begin := time.Now()
	result, status := w.PreBindPreFlight(w.ctx, a.state, a.pod, "n1")
	if !status.IsSuccess() || !result.AllowParallel {
		w.t.Errorf("PreBindPreFlight: %v, %v", result, status)
	}
	return statusText(w.PreBind(w.ctx, a.state, a.pod, "n1")), time.Since(begin)
}

func TestPreBind(t *testing.T) {
	static := []runtime.Object{fixture.Claim("a", "local").Obj(), fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Obj()}
	dynamic := []runtime.Object{fixture.Claim("a", "made").Obj()}
	for name, c := range map[string]struct {
		objects []runtime.Object
		fault   fakecluster.Fault
		// meanwhile happens two and a half seconds after PreBind began. A claim's
		// change is heard of at once, all else at the next full second.
		meanwhile func(w *testEnv)
		alone     bool // nobody binds or provisions
		said      string
		took      time.Duration
		bound     map[string]string
	}{
		"a volume is bound": {objects: static, said: "Success", bound: map[string]string{"v": "default/a"}},
		"a volume is made":  {objects: dynamic, said: "Success", bound: map[string]string{"pvc-a": "default/a"}},
		"nobody binds it": {
			objects: static, alone: true, said: "Error: binding volumes: context deadline exceeded", took: 10 * time.Minute,
			bound: map[string]string{"v": "default/a"},
		},
		"the write fails": {
			objects: static, fault: fakecluster.Fault{Verb: "volume", Err: errors.New("no quorum")}, said: "Error: no quorum", bound: map[string]string{},
		},
		"the claim's write fails": {
			objects: dynamic, fault: fakecluster.Fault{Verb: "claim", Err: errors.New("no quorum")}, said: "Error: no quorum", bound: map[string]string{},
		},
		"the provisioner gives up": {
			objects: dynamic, alone: true, took: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(w *testEnv) { w.cluster.Replace(fixture.Claim("a", "made").Annotation("some", "thing").Obj()) },
			said:      `Error: binding volumes: provisioning failed for PVC "a"`,
		},
		"all annotations are gone": {
			objects: dynamic, alone: true, took: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(w *testEnv) { w.cluster.Replace(fixture.Claim("a", "made").Obj()) },
			said:      `Error: binding volumes: selectedNode annotation reset for PVC "a"`,
		},
		"the volume is taken back": {
			objects: static, alone: true, took: 3 * time.Second, bound: map[string]string{},
			meanwhile: func(w *testEnv) {
				w.cluster.Replace(fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Obj())
			},
			said: `Error: binding volumes: ClaimRef got reset for pv "v"`,
		},
		"the pod is deleted": {
			objects: static, alone: true, took: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(w *testEnv) { w.cluster.DeletePod(podWithClaims("a")) },
			said:      `Error: binding volumes: pod does not exist any more: pod "web" not found`,
		},
		"the pod is re-created under its name": {
			objects: static, alone: true, took: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(w *testEnv) {
				w.cluster.DeletePod(podWithClaims("a"))
				w.cluster.Apply(fixture.Pod("web").UID("another").Claim("a").Obj())
			},
			said: `Error: binding volumes: pod does not exist any more: pod "web" was re-created`,
		},
		"the claim of a chosen volume is re-created under its name": {
			objects: static, alone: true, took: 2500 * time.Millisecond, bound: map[string]string{"v": "default/a"},
			meanwhile: func(w *testEnv) { w.cluster.Replace(fixture.Claim("a", "local").Mutate(withOtherUID).Obj()) },
			said:      `Error: binding volumes: PVC "a" was re-created`,
		},
		"the claim that a volume is made for is re-created under its name": {
			objects: dynamic, alone: true, took: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(w *testEnv) {
				w.cluster.Replace(fixture.Claim("a", "made").Annotation(volume.AnnSelectedNode, "n1").Mutate(withOtherUID).Obj())
			},
			said: `Error: binding volumes: PVC "a" was re-created`,
		},
		"the node is gone": {
			objects: static, alone: true, took: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(w *testEnv) { w.deleteNode(node1) },
			said:      `Error: binding volumes: failed to get node "n1": node "n1" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				if !c.alone {
					w.cluster.RunVolumeController()
				}
				if c.fault.Verb != "" {
					w.cluster.Inject(c.fault)
				}
				if c.meanwhile != nil {
					time.AfterFunc(2500*time.Millisecond, func() { c.meanwhile(w) })
				}
				text, took := w.bind(w.reserve())
				w.expect("PreBind", text, c.said)
				w.expect("it took", took, c.took)
				synctest.Wait()
				w.expect("volumes", w.cluster.BoundVolumes(), c.bound)
			}, clusterWithPod(c.objects...)...)
		})
	}
}

func withOtherUID(c *v1.PersistentVolumeClaim) { c.UID = "another" }

// gone deletes a node.
func (w *testEnv) deleteNode(node *v1.Node) {
	if err := w.cluster.CoreV1().Nodes().Delete(w.ctx, node.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Error(err)
	}
}

func TestTheNextPodDoesNotFindAReservedVolumeFree(t *testing.T) {
	runTest(t, func(w *testEnv) {
		a := w.reserve()
		other := w.evaluate(fixture.Pod("other").Claim("b").Obj(), node1)
		w.expect("the next pod", other.rejections, map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"})

		w.Unreserve(w.ctx, a.state, a.pod, "n1")
		other = w.evaluate(fixture.Pod("other").Claim("b").Obj(), node1)
		w.expect("the next pod, once it is given back", other.rejections, map[string]string{})
		w.expect("calls", w.cluster.TakeCalls(), []string(nil))
	}, clusterWithPod(fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(), fixture.Volume("v", "local").Obj())...)
}

func TestReserveSelectsTheNode(t *testing.T) {
	runTest(t, func(w *testEnv) {
		a := w.reserve()
		claim, err := w.volumeCache.Claim("default", "a")
		if err != nil || claim.Annotations[volume.AnnSelectedNode] != "n1" {
			t.Errorf("got %v, %v", claim, err)
		}
		w.Unreserve(w.ctx, a.state, a.pod, "n1")
		claim, err = w.volumeCache.Claim("default", "a")
		if err != nil || claim.Annotations[volume.AnnSelectedNode] != "" {
			t.Errorf("once it is given back, got %v, %v", claim, err)
		}
	}, clusterWithPod(fixture.Claim("a", "made").Obj())...)
}

func TestReserveOfAChangedVolumeIsAnError(t *testing.T) {
	runTest(t, func(w *testEnv) {
		a := w.evaluate(podWithClaims("a"), node1)
		w.cluster.Replace(fixture.Volume("v", "local").Capacity("2Gi").Obj())
		synctest.Wait()
		status := w.Reserve(w.ctx, a.state, a.pod, "n1")
		w.expect("Reserve", statusText(status), `Error: "v" is out of sync (stored: 107, assume: 102)`)
		w.Unreserve(w.ctx, a.state, a.pod, "n1")
	}, clusterWithPod(fixture.Claim("a", "local").Obj(), fixture.Volume("v", "local").Obj())...)
}
