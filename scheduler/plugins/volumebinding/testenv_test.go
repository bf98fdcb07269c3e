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
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is the plugin over a fake cluster, in the fake time of a synctest bubble.
type testEnv struct {
	*Plugin
	t           *testing.T
	ctx         context.Context
	cluster     *fakecluster.Cluster
	informers   informers.SharedInformerFactory
	volumeCache *volumes.Volumes
}

// handle is the Handle of the plugin.
type handle struct {
	fwk.Handle
	*testEnv
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handle) Volumes() framework.Volumes                             { return h.volumeCache }
func (h handle) SignPod(context.Context, *v1.Pod) fwk.PodSignature      { return nil }

// runTest runs test in a synctest bubble with a cluster of objects.
func runTest(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := fakecluster.New(objects...)
		ctx, cancel := context.WithCancel(t.Context())
		env := &testEnv{t: t, ctx: ctx, cluster: cluster, informers: informers.NewSharedInformerFactory(cluster, 0)}
		env.volumeCache = volumes.New(volumes.Options{Client: cluster, Clock: clock.RealClock{}})
		core := env.informers.Core().V1()
		if err := env.volumeCache.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
			t.Fatal(err)
		}
		args := &configv1.VolumeBindingArgs{}
		Default(args)
		plugin, err := New(ctx, args, handle{testEnv: env})
		if err != nil {
			t.Fatal(err)
		}
		env.Plugin = plugin.(*Plugin)
		env.informers.Start(ctx.Done())
		env.informers.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		test(env)
		cancel()
		env.informers.Shutdown()
	})
}

// expect fails the test if got is not want.
func (env *testEnv) expect(what string, got, want any) {
	env.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		env.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

// attempt is the result of the scheduling cycle of a pod up to PreScore and Score.
type attempt struct {
	state *framework.CycleState
	pod   *v1.Pod
	// preFilterStatus is the status of PreFilter, if that was not Success.
	preFilterStatus string
	// rejections and score are by node.
	rejections map[string]string
	score      map[string]int64
}

// evaluate runs PreFilter, Filter, PreScore and Score for nodes.
func (env *testEnv) evaluate(pod *v1.Pod, nodes ...*v1.Node) attempt {
	env.t.Helper()
	a := attempt{state: framework.NewCycleState(), pod: pod, rejections: map[string]string{}, score: map[string]int64{}}
	if _, status := env.PreFilter(env.ctx, a.state, pod, nil); !status.IsSuccess() {
		a.preFilterStatus = statusText(status)
		return a
	}
	var fit []fwk.NodeInfo
	for _, node := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		if status := env.Filter(env.ctx, a.state, pod, info); !status.IsSuccess() {
			a.rejections[node.Name] = statusText(status)
		} else {
			fit = append(fit, info)
		}
	}
	if status := env.PreScore(env.ctx, a.state, pod, fit); !status.IsSuccess() {
		env.t.Errorf("PreScore: %v", status)
	}
	for _, info := range fit {
		score, status := env.Score(env.ctx, a.state, pod, info)
		if !status.IsSuccess() {
			env.t.Errorf("Score: %v", status)
		}
		a.score[info.Node().Name] = score
	}
	return a
}

// statusText returns the code and the reasons of a status.
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

// podWithClaims returns a pod with these claims.
func podWithClaims(claims ...string) *v1.Pod {
	pod := fixture.Pod("web")
	for _, name := range slices.Sorted(slices.Values(claims)) {
		pod.Claim(name)
	}
	return pod.Obj()
}

// n1 and n2 are in zones a and b.
var (
	// node1 and node2 are in zones a and b.
	node1 = fixture.Node("n1").Zone("a").Obj()
	node2 = fixture.Node("n2").Zone("b").Obj()
)
