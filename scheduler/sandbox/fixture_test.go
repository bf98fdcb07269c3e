package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// newSource returns a Source that holds the given objects and no assumed pods.
func newSource(objects ...metav1.Object) Source {
	nodes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	pods := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, object := range objects {
		into := pods
		if _, ok := object.(*v1.Node); ok {
			into = nodes
		}
		_ = into.Add(object) // they have names
	}
	return Source{
		Host: framework.Host{Clock: clock.RealClock{}}, Nodes: corelisters.NewNodeLister(nodes), Pods: corelisters.NewPodLister(pods), Cache: cache.New(),
		Unsupported: func(pod *v1.Pod) (string, string) { return pod.Labels["unsupported"], "not yet" },
	}
}

// newSourceWithNomination is newSource with a pod, which may be nil, nominated for node a.
func newSourceWithNomination(t *testing.T, nominated *v1.Pod, objects ...metav1.Object) Source {
	s := newSource(objects...)
	if nominated != nil {
		s.nominate(t, nominated, "a")
	}
	return s
}

func (s Source) nominate(t *testing.T, pod *v1.Pod, node string) {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	s.Cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}

func (s Source) mustRead(t *testing.T) *ClusterState {
	t.Helper()
	state, err := s.Read("p")
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// podOfProfile is a pod of the evaluated profile.
func podOfProfile(name string) *fixture.PodBuilder { return fixture.Pod(name).SchedulerName("p") }

// buildCandidate builds plugins on a copy of the cluster.
func buildCandidate(t *testing.T, cluster *Cluster, registry framework.Registry, chains framework.Chains) Candidate {
	t.Helper()
	trial := &framework.Trial{}
	f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: chains, Trial: trial}, registry, cluster.Host())
	if err != nil {
		t.Fatal(err)
	}
	return Candidate{Framework: f, Trial: trial}
}

// newCandidate builds a probe, which counts as an out-of-tree plugin.
func newCandidate(t *testing.T, cluster *Cluster, a *probe.Plugin) Candidate {
	t.Helper()
	return buildCandidate(t, cluster, probe.Registry(a), probe.Chains([]*probe.Plugin{a}))
}

func newProbe(name string) *probe.Plugin {
	return &probe.Plugin{PluginName: name, Log: &probe.CallLog{}, Statuses: map[string]probe.StatusFunc{}}
}

func podNames(pods []*v1.Pod) []string {
	out := []string{}
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

// contents returns what a copy of the cluster holds, by node.
func contents(cluster *Cluster) []string {
	var out []string
	for _, node := range cluster.cache.UpdateSnapshot().Nodes() {
		line := node.Node().Name + ":"
		var there []string
		for _, pod := range node.GetPods() {
			there = append(there, pod.GetPod().Name)
		}
		slices.Sort(there)
		for _, nominated := range cluster.cache.NominatedPodsForNode(node.Node().Name) {
			there = append(there, "("+nominated.GetPod().Name+")")
		}
		out = append(out, fmt.Sprint(line, cmp.Or(fmt.Sprint(there), "[]")))
	}
	return out
}

// filterPlugin is a probe whose Filter reads the node.
type filterPlugin struct {
	*probe.Plugin
	filter func(node fwk.NodeInfo) *fwk.Status
}

func (r *filterPlugin) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return r.filter(node)
}

// newFilterCandidate builds a plugin that calls filter for each node.
func newFilterCandidate(t *testing.T, cluster *Cluster, filter func(fwk.NodeInfo) *fwk.Status) Candidate {
	t.Helper()
	a := newProbe("A")
	registry := probe.Registry(a)
	registration := registry["A"]
	registration.New = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return &filterPlugin{a, filter}, nil
	}
	registry["A"] = registration
	return buildCandidate(t, cluster, registry, probe.Chains([]*probe.Plugin{a}))
}
