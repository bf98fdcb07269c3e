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

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// clusterWithPod returns the objects of a cluster with a pod whose claim is to be bound
// on n1.
func clusterWithPod(more ...runtime.Object) []runtime.Object {
	return append(more, podWithClaims("a"), node1, fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi"))
}

// reserve filters and reserves n1 for the pod.
func (env *testEnv) reserve() attempt {
	env.t.Helper()
	a := env.evaluate(podWithClaims("a"), node1)
	env.expect("rejections", a.rejections, map[string]string{})
	if status := env.Reserve(env.ctx, a.state, a.pod, "n1"); !status.IsSuccess() {
		env.t.Fatal(status)
	}
	return a
}

// bind runs PreBind, and returns its status and how long it took.
func (env *testEnv) bind(a attempt) (string, time.Duration) {
	env.t.Helper()
	begin := time.Now()
	result, status := env.PreBindPreFlight(env.ctx, a.state, a.pod, "n1")
	if !status.IsSuccess() || !result.AllowParallel {
		env.t.Errorf("PreBindPreFlight: %v, %v", result, status)
	}
	return statusText(env.PreBind(env.ctx, a.state, a.pod, "n1")), time.Since(begin)
}

func TestPreBind(t *testing.T) {
	static := []runtime.Object{fixture.Claim("a", "local").Obj(), fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Obj()}
	dynamic := []runtime.Object{fixture.Claim("a", "made").Obj()}
	for name, c := range map[string]struct {
		objects []runtime.Object
		fault   fakecluster.Fault
		// meanwhile runs 2.5 s after PreBind began. PreBind sees a change of a claim
		// at once, and any other change at the next full second.
		meanwhile    func(env *testEnv)
		noController bool // no volume controller runs
		status       string
		duration     time.Duration
		bound        map[string]string
	}{
		"a volume is bound":       {objects: static, status: "Success", bound: map[string]string{"v": "default/a"}},
		"a volume is provisioned": {objects: dynamic, status: "Success", bound: map[string]string{"pvc-a": "default/a"}},
		"the claim is not bound in time": {
			objects: static, noController: true, status: "Error: binding volumes: context deadline exceeded", duration: 10 * time.Minute,
			bound: map[string]string{"v": "default/a"},
		},
		"the write fails": {
			objects: static, fault: fakecluster.Fault{Verb: "volume", Err: errors.New("no quorum")}, status: "Error: no quorum", bound: map[string]string{},
		},
		"the claim's write fails": {
			objects: dynamic, fault: fakecluster.Fault{Verb: "claim", Err: errors.New("no quorum")}, status: "Error: no quorum", bound: map[string]string{},
		},
		"provisioning fails": {
			objects: dynamic, noController: true, duration: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(env *testEnv) { env.cluster.Replace(fixture.Claim("a", "made").Annotation("some", "thing").Obj()) },
			status:    `Error: binding volumes: provisioning failed for PVC "a"`,
		},
		"all annotations are removed": {
			objects: dynamic, noController: true, duration: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(env *testEnv) { env.cluster.Replace(fixture.Claim("a", "made").Obj()) },
			status:    `Error: binding volumes: selectedNode annotation reset for PVC "a"`,
		},
		"the volume is released": {
			objects: static, noController: true, duration: 3 * time.Second, bound: map[string]string{},
			meanwhile: func(env *testEnv) {
				env.cluster.Replace(fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Obj())
			},
			status: `Error: binding volumes: ClaimRef got reset for pv "v"`,
		},
		"the claim is bound to another volume": {
			objects: static, noController: true, duration: 2500 * time.Millisecond, bound: map[string]string{"v": "default/a"},
			meanwhile: func(env *testEnv) { env.cluster.Replace(fixture.Claim("a", "local").BoundTo("other").Obj()) },
			status:    `Error: binding volumes: PVC "a" is bound to pv "other" instead of "v"`,
		},
		"the pod is deleted": {
			objects: static, noController: true, duration: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(env *testEnv) { env.cluster.DeletePod(podWithClaims("a")) },
			status:    `Error: binding volumes: pod does not exist any more: pod "web" not found`,
		},
		"the pod is re-created under its name": {
			objects: static, noController: true, duration: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(env *testEnv) {
				env.cluster.DeletePod(podWithClaims("a"))
				env.cluster.Apply(fixture.Pod("web").UID("another").Claim("a").Obj())
			},
			status: `Error: binding volumes: pod does not exist any more: pod "web" was re-created`,
		},
		"the claim to be bound is re-created under its name": {
			objects: static, noController: true, duration: 2500 * time.Millisecond, bound: map[string]string{"v": "default/a"},
			meanwhile: func(env *testEnv) { env.cluster.Replace(fixture.Claim("a", "local").Mutate(withOtherUID).Obj()) },
			status:    `Error: binding volumes: PVC "a" was re-created`,
		},
		"the claim to be provisioned is re-created under its name": {
			objects: dynamic, noController: true, duration: 2500 * time.Millisecond, bound: map[string]string{},
			meanwhile: func(env *testEnv) {
				env.cluster.Replace(fixture.Claim("a", "made").Annotation(volume.AnnSelectedNode, "n1").Mutate(withOtherUID).Obj())
			},
			status: `Error: binding volumes: PVC "a" was re-created`,
		},
		"the node is deleted": {
			objects: static, noController: true, duration: 3 * time.Second, bound: map[string]string{"v": "default/a"},
			meanwhile: func(env *testEnv) { env.deleteNode(node1) },
			status:    `Error: binding volumes: failed to get node "n1": node "n1" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				if !c.noController {
					env.cluster.RunVolumeController()
				}
				if c.fault.Verb != "" {
					env.cluster.Inject(c.fault)
				}
				if c.meanwhile != nil {
					time.AfterFunc(2500*time.Millisecond, func() { c.meanwhile(env) })
				}
				got, duration := env.bind(env.reserve())
				env.expect("PreBind", got, c.status)
				env.expect("duration", duration, c.duration)
				synctest.Wait()
				env.expect("volumes", env.cluster.BoundVolumes(), c.bound)
			}, clusterWithPod(c.objects...)...)
		})
	}
}

func withOtherUID(c *v1.PersistentVolumeClaim) { c.UID = "another" }

// deleteNode deletes a node.
func (env *testEnv) deleteNode(node *v1.Node) {
	if err := env.cluster.CoreV1().Nodes().Delete(env.ctx, node.Name, metav1.DeleteOptions{}); err != nil {
		env.t.Error(err)
	}
}

func TestTheNextPodDoesNotFindAReservedVolumeFree(t *testing.T) {
	runTest(t, func(env *testEnv) {
		a := env.reserve()
		other := env.evaluate(fixture.Pod("other").Claim("b").Obj(), node1)
		env.expect("the next pod", other.rejections, map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"})

		env.Unreserve(env.ctx, a.state, a.pod, "n1")
		other = env.evaluate(fixture.Pod("other").Claim("b").Obj(), node1)
		env.expect("the next pod, after Unreserve", other.rejections, map[string]string{})
		env.expect("calls", env.cluster.TakeCalls(), []string(nil))
	}, clusterWithPod(fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(), fixture.Volume("v", "local").Obj())...)
}

func TestReserveSelectsTheNode(t *testing.T) {
	runTest(t, func(env *testEnv) {
		a := env.reserve()
		claim, err := env.volumeCache.Claim("default", "a")
		if err != nil || claim.Annotations[volume.AnnSelectedNode] != "n1" {
			t.Errorf("got %v, %v", claim, err)
		}
		env.Unreserve(env.ctx, a.state, a.pod, "n1")
		claim, err = env.volumeCache.Claim("default", "a")
		if err != nil || claim.Annotations[volume.AnnSelectedNode] != "" {
			t.Errorf("after Unreserve, got %v, %v", claim, err)
		}
	}, clusterWithPod(fixture.Claim("a", "made").Obj())...)
}

func TestReserveOfAChangedVolumeIsAnError(t *testing.T) {
	runTest(t, func(env *testEnv) {
		a := env.evaluate(podWithClaims("a"), node1)
		env.cluster.Replace(fixture.Volume("v", "local").Capacity("2Gi").Obj())
		synctest.Wait()
		status := env.Reserve(env.ctx, a.state, a.pod, "n1")
		env.expect("Reserve", statusText(status), `Error: "v" is out of sync (stored: 107, assume: 102)`)
		env.Unreserve(env.ctx, a.state, a.pod, "n1")
	}, clusterWithPod(fixture.Claim("a", "local").Obj(), fixture.Volume("v", "local").Obj())...)
}
