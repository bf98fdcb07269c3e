package framework_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// sums is what a NodeInfo adds up, in a form that cmp can compare.
type sums struct {
	Requested, Scored framework.Resource
	Ports             fwk.HostPortInfo
	Claims            map[string]int
	Pods, Affine      []string
	AntiAffine        []string
}

func sumsOf(n *framework.NodeInfo) sums {
	names := func(pods []fwk.PodInfo) []string {
		var all []string
		for _, pod := range pods {
			all = append(all, pod.GetPod().Name)
		}
		return all
	}
	return sums{
		Requested: n.Requested, Scored: n.NonZeroRequested,
		Ports: n.GetUsedPorts(), Claims: n.GetPVCRefCounts(),
		Pods: names(n.GetPods()), Affine: names(n.GetPodsWithAffinity()),
		AntiAffine: names(n.GetPodsWithRequiredAntiAffinity()),
	}
}

// podsOfEveryKind returns one pod of each kind that NodeInfo handles
// differently.
func podsOfEveryKind() (web, db, proxy *v1.Pod) {
	web = fixture.Pod("shop/web").Requests("cpu", "1", "memory", "1Ki").Claim("data").
		RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web")).Obj()
	db = fixture.Pod("shop/db").Requests("cpu", "2", "example.com/gpu", "1").Claim("data").Claim("logs").
		PreferPodAffinity(3, fixture.PodAffinityTerm("zone", "app", "web")).Obj()
	proxy = fixture.Pod("shop/proxy").HostPort("", "", 80).HostPort("10.0.0.1", v1.ProtocolUDP, 53).Obj()
	return web, db, proxy
}

func TestNodeInfoAddsUpItsPods(t *testing.T) {
	web, db, proxy := podsOfEveryKind()
	n := framework.NewNodeInfo(web, db, proxy)
	want := sums{
		Requested: framework.Resource{MilliCPU: 3000, Memory: 1024,
			ScalarResources: map[v1.ResourceName]int64{"example.com/gpu": 1}},
		Scored: framework.Resource{MilliCPU: 3200, Memory: 1024 + 600<<20},
		Ports: fwk.HostPortInfo{
			"0.0.0.0":  {{Protocol: "TCP", Port: 80}: {}},
			"10.0.0.1": {{Protocol: "UDP", Port: 53}: {}},
		},
		Claims:     map[string]int{"shop/data": 2, "shop/logs": 1},
		Pods:       []string{"web", "db", "proxy"},
		Affine:     []string{"web", "db"},
		AntiAffine: []string{"web"},
	}
	if diff := cmp.Diff(want, sumsOf(n)); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestRemovingAPodMovesTheLastIntoItsPlace(t *testing.T) {
	web, db, proxy := podsOfEveryKind()
	n := framework.NewNodeInfo(web, db, proxy)
	if err := n.RemovePod(klog.Background(), web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"proxy", "db"}, sumsOf(n).Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// A pod that is decided for a node is added to it, and may be there already, since another component
// has bound it.
func TestOfAPodThatIsThereTwiceTheOneThatWasAddedLastIsRemoved(t *testing.T) {
	bound, decided := fixture.Pod("shop/web").Requests("cpu", "3").Obj(), fixture.Pod("shop/web").Requests("cpu", "1").Obj()
	n := framework.NewNodeInfo(bound, decided)
	if err := n.RemovePod(klog.Background(), decided); err != nil {
		t.Fatal(err)
	}
	if left := n.GetPods(); n.Requested.MilliCPU != 3000 || len(left) != 1 || left[0].GetPod() != bound {
		t.Errorf("%v are left, with %d mCPU", left, n.Requested.MilliCPU)
	}
}

func TestRemovingEveryPodLeavesEmptySums(t *testing.T) {
	web, db, proxy := podsOfEveryKind()
	n := framework.NewNodeInfo(web, db, proxy)
	for _, pod := range []*v1.Pod{db, proxy, web} {
		if err := n.RemovePod(klog.Background(), pod); err != nil {
			t.Fatal(err)
		}
	}
	got := sumsOf(n)
	if got.Requested.ScalarResources["example.com/gpu"] != 0 {
		t.Errorf("remaining GPUs: %v", got.Requested.ScalarResources)
	}
	got.Requested.ScalarResources = nil
	if diff := cmp.Diff(sums{Ports: fwk.HostPortInfo{}, Claims: map[string]int{}}, got); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestRemovePodReturnsAnError(t *testing.T) {
	web, db, _ := podsOfEveryKind()
	n := framework.NewNodeInfo(web)
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"a pod that is not on the node":            {pod: db, want: "shop/db with UID shop/db is not on node"},
		"a pod without an UID":                     {pod: fixture.Pod("shop/web").UID("").Obj(), want: "metadata.uid is empty"},
		"a pod with the same name and another UID": {pod: fixture.Pod("shop/web").UID("2").Obj(), want: "UID 2 is not on node"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := n.RemovePod(klog.Background(), c.pod); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestEveryChangeGivesANewGeneration(t *testing.T) {
	web, db, _ := podsOfEveryKind()
	n, seen := framework.NewNodeInfo(), sets.New[int64]()
	for _, change := range []func(){
		func() {},
		func() { n.SetNode(fixture.Node("n1").Obj()) },
		func() { n.AddPodInfo(framework.NewNodeInfo(web).GetPods()[0]) },
		func() { n.AddPodInfo(framework.NewNodeInfo(db).GetPods()[0]) },
		func() { _ = n.RemovePod(klog.Background(), web) },
		func() { n.RemoveNode() },
	} {
		change()
		if seen.Has(n.GetGeneration()) {
			t.Fatalf("generation %d came twice", n.GetGeneration())
		}
		seen.Insert(n.GetGeneration())
	}
}

func TestASnapshotDoesNotChange(t *testing.T) {
	web, db, proxy := podsOfEveryKind()
	n := framework.NewNodeInfo(web, db, proxy)
	n.SetNode(fixture.Node("n1").Capacity("cpu", "4").DeclaredFeatures("RestartAllContainersOnContainerExits").Obj())
	n.ImageStates = map[string]*fwk.ImageStateSummary{
		"nginx": {Size: 7, Nodes: sets.New("n1", "n2")},
	}
	snapshot := n.Snapshot().(*framework.NodeInfo)
	before := sumsOf(snapshot)
	if snapshot.GetGeneration() != n.GetGeneration() {
		t.Errorf("generation %d, want the original's %d", snapshot.GetGeneration(), n.GetGeneration())
	}
	want := map[string]*fwk.ImageStateSummary{"nginx": {Size: 7, NumNodes: 2}}
	if diff := cmp.Diff(want, snapshot.GetImageStates()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}

	for _, pod := range []*v1.Pod{web, db, proxy} {
		if err := n.RemovePod(klog.Background(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, sumsOf(snapshot)); diff != "" {
		t.Errorf("the snapshot changed (-before +after):\n%s", diff)
	}
}

func TestSetNodeReadsAllocatable(t *testing.T) {
	n := framework.NewNodeInfo()
	n.SetNode(fixture.Node("n1").Capacity("cpu", "4").
		DeclaredFeatures("RestartAllContainersOnContainerExits", "TheFutureCallsItSomething").Obj())
	if diff := cmp.Diff(framework.Resource{MilliCPU: 4000, AllowedPodNumber: 110}, n.Allocatable); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	if n.GetNodeDeclaredFeatures().IsEmpty() {
		t.Error("no declared feature, want the known one")
	}
	n.RemoveNode()
	if got := n.GetName(); got != "<no node>" {
		t.Errorf("the name without a node is %q", got)
	}
}

func TestUntoleratedTaint(t *testing.T) {
	tolerations := fixture.Pod("a").
		Tolerate("a", "1", v1.TaintEffectNoSchedule).
		Toleration(v1.Toleration{Key: "b", Operator: v1.TolerationOpExists}).
		Toleration(v1.Toleration{Key: "n", Operator: v1.TolerationOpGt, Value: "5"}).Obj().Spec.Tolerations
	for name, c := range map[string]struct {
		node *fixture.NodeBuilder
		want string
	}{
		"a node without taints":                             {node: fixture.Node("n")},
		"a toleration of the same key, value and effect":    {node: fixture.Node("n").Taint("a", "1", v1.TaintEffectNoSchedule)},
		"a toleration of another value":                     {node: fixture.Node("n").Taint("a", "2", v1.TaintEffectNoSchedule), want: "a"},
		"a toleration of another effect":                    {node: fixture.Node("n").Taint("a", "1", v1.TaintEffectNoExecute), want: "a"},
		"PreferNoSchedule":                                  {node: fixture.Node("n").Taint("x", "", v1.TaintEffectPreferNoSchedule)},
		"a toleration without effect tolerates all effects": {node: fixture.Node("n").Taint("b", "9", v1.TaintEffectNoExecute)},
		"the operator Gt tolerates nothing":                 {node: fixture.Node("n").Taint("n", "7", v1.TaintEffectNoSchedule), want: "n"},
		"the first untolerated taint is returned": {
			node: fixture.Node("n").Taint("b", "", v1.TaintEffectNoSchedule).
				Taint("y", "", v1.TaintEffectNoSchedule).Taint("z", "", v1.TaintEffectNoSchedule),
			want: "y",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if taint := framework.UntoleratedTaint(c.node.Obj().Spec.Taints, tolerations); taint != nil {
				got = taint.Key
			}
			if got != c.want {
				t.Errorf("untolerated taint %q, want %q", got, c.want)
			}
		})
	}
}
