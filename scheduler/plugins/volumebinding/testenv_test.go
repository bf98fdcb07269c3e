package volumebinding

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// world is the plugin over a fake cluster, in virtual time.
type testEnv struct {
	*Plugin
	t           *testing.T
	ctx         context.Context
	cluster     *fakecluster.Cluster
	informers   informers.SharedInformerFactory
	volumeCache *volumes.Volumes
}

// handle is what the plugin is lent.
type handle struct {
	fwk.Handle
	*testEnv
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handle) Volumes() framework.Volumes                             { return h.volumeCache }
func (h handle) SignPod(context.Context, *v1.Pod) fwk.PodSignature      { return nil }

func runTest(t *testing.T, test func(w *testEnv), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := fakecluster.New(objects...)
		ctx, cancel := context.WithCancel(t.Context())
		w := &testEnv{t: t, ctx: ctx, cluster: cluster, informers: informers.NewSharedInformerFactory(cluster, 0)}
		w.volumeCache = volumes.New(volumes.Options{Client: cluster, Clock: clock.RealClock{}})
		core := w.informers.Core().V1()
		if err := w.volumeCache.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
			t.Fatal(err)
		}
		args := &configv1.VolumeBindingArgs{}
		Default(args)
		plugin, err := New(ctx, args, handle{testEnv: w})
		if err != nil {
			t.Fatal(err)
		}
		w.Plugin = plugin.(*Plugin)
		w.informers.Start(ctx.Done())
		w.informers.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		test(w)
		cancel()
		w.informers.Shutdown()
	})
}

func (w *testEnv) expect(what string, got, want any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

// attempt is one of a pod up to the nodes that fit.
type attempt struct {
	state *framework.CycleState
	pod   *v1.Pod
	// said is what PreFilter said where it did not let the pod through.
	preFilterStatus string
	// refused and score are by node.
	rejections map[string]string
	score      map[string]int64
}

// try asks about the pod on every node.
func (w *testEnv) evaluate(pod *v1.Pod, nodes ...*v1.Node) attempt {
	w.t.Helper()
	a := attempt{state: framework.NewCycleState(), pod: pod, rejections: map[string]string{}, score: map[string]int64{}}
	if _, status := w.PreFilter(w.ctx, a.state, pod, nil); !status.IsSuccess() {
		a.preFilterStatus = statusText(status)
		return a
	}
	var fit []fwk.NodeInfo
	for _, node := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		if status := w.Filter(w.ctx, a.state, pod, info); !status.IsSuccess() {
			a.rejections[node.Name] = statusText(status)
		} else {
			fit = append(fit, info)
		}
	}
	if status := w.PreScore(w.ctx, a.state, pod, fit); !status.IsSuccess() {
		w.t.Errorf("PreScore: %v", status)
	}
	for _, info := range fit {
		score, status := w.Score(w.ctx, a.state, pod, info)
		if !status.IsSuccess() {
			w.t.Errorf("Score: %v", status)
		}
		a.score[info.Node().Name] = score
	}
	return a
}

// said is a status as text: its code, and its reasons.
func statusText(status *fwk.Status) string {
	if status == nil {
		return "Success"
	}
	text := status.Code().String()
	for _, reason := range status.Reasons() {
		text += ": " + reason
	}
	return text
}

// web is a pod with these claims.
func podWithClaims(claims ...string) *v1.Pod {
	pod := fixture.Pod("web")
	for _, name := range slices.Sorted(slices.Values(claims)) {
		pod.Claim(name)
	}
	return pod.Obj()
}

// n1 and n2 are in zones a and b.
var (
	node1 = fixture.Node("n1").Zone("a").Obj()
	node2 = fixture.Node("n2").Zone("b").Obj()
)
