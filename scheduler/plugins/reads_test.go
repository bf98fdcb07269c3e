package plugins_test

import (
	"fmt"
	"hash/fnv"
	"math/rand"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/support/fixture"
)

// recordingNodeInfo is a NodeInfo that records which facets are read. It cannot see
// what is read from Node(); TestUndeclaredFacetsDoNotMatter checks that.
type recordingNodeInfo struct {
	fwk.NodeInfo
	facets framework.Facets
}

// nodeObjectFacets are the facets that can be read from Node().
const nodeObjectFacets = framework.NodeName | framework.NodeLabels | framework.NodeTaints | framework.NodeUnschedulable

func (r *recordingNodeInfo) GetPods() []fwk.PodInfo {
	r.facets |= framework.NodePods
	return r.NodeInfo.GetPods()
}

func (r *recordingNodeInfo) GetUsedPorts() fwk.HostPortInfo {
	r.facets |= framework.NodePorts
	return r.NodeInfo.GetUsedPorts()
}

func (r *recordingNodeInfo) GetRequested() fwk.Resource {
	r.facets |= framework.NodeRequested
	return r.NodeInfo.GetRequested()
}

func (r *recordingNodeInfo) GetNonZeroRequested() fwk.Resource {
	r.facets |= framework.NodeScored
	return r.NodeInfo.GetNonZeroRequested()
}

func (r *recordingNodeInfo) GetAllocatable() fwk.Resource {
	r.facets |= framework.NodeAllocatable
	return r.NodeInfo.GetAllocatable()
}

func (r *recordingNodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary {
	r.facets |= framework.NodeImages
	return r.NodeInfo.GetImageStates()
}

func (r *recordingNodeInfo) GetPVCRefCounts() map[string]int {
	r.facets |= framework.NodeClaims
	return r.NodeInfo.GetPVCRefCounts()
}

func (r *recordingNodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet {
	r.facets |= framework.NodeFeatures
	return r.NodeInfo.GetNodeDeclaredFeatures()
}

// fakeHandle is a Handle that offers what verdicts may depend on besides the node: the
// number of nodes, counts, and the services that select pods.
type fakeHandle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes     int
	informers informers.SharedInformerFactory
	// countsSeed is the seed of the counts by domain.
	countsSeed int64
	// claimsInUse says that a pod uses every claim.
	claimsInUse bool
	// volumes is nil until Volumes is called.
	volumes framework.Volumes
	// otherNodes are scored together with the node under test.
	otherNodes []fwk.NodeInfo
}

func newFakeHandle(nodes int) *fakeHandle {
	return &fakeHandle{nodes: nodes, informers: informers.NewSharedInformerFactory(nil, 0)}
}

func (c *fakeHandle) SnapshotSharedLister() fwk.SharedLister                 { return c }
func (c *fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }
func (c *fakeHandle) NodeInfos() fwk.NodeInfoLister                          { return c }
func (c *fakeHandle) List() ([]fwk.NodeInfo, error)                          { return make([]fwk.NodeInfo, c.nodes), nil }
func (c *fakeHandle) SharedCSIManager() fwk.CSIManager                       { return csiManager{c.informers} }
func (c *fakeHandle) StorageInfos() fwk.StorageInfoLister                    { return c }
func (c *fakeHandle) IsPVCUsedByPods(string) bool                            { return c.claimsInUse }
func (c *fakeHandle) Counts() counts.Counts                                  { return c }

// randomSums returns random sums by domain that depend on the seed and on the query.
func (c *fakeHandle) randomSums(query ...any) *counts.DomainSums {
	hash := fnv.New64()
	fmt.Fprint(hash, c.countsSeed, query)
	random := rand.New(rand.NewSource(int64(hash.Sum64())))
	return counts.NewDomainSums(map[string]int64{"": random.Int63n(4), "a": random.Int63n(4), "b": random.Int63n(4), "c": random.Int63n(4)})
}

func (c *fakeHandle) Pods(queries ...counts.PodQuery) []*counts.DomainSums {
	sums := make([]*counts.DomainSums, len(queries))
	for i, q := range queries {
		sums[i] = c.randomSums(q.TopologyKey, q.Pods.Selector, q.Pods.Namespaces)
	}
	return sums
}

func (c *fakeHandle) Terms(q counts.TermQuery) *counts.TermSums {
	return &counts.TermSums{ByTopologyKey: map[string]*counts.DomainSums{"zone": c.randomSums(q.Namespace, q.RequiredAntiAffinity)}}
}

func (c *fakeHandle) PodsOnNode(node fwk.NodeInfo, pods *counts.PodSet) int64 {
	return pods.CountOnNode(node)
}

// csiManager is a CSIManager, and its lister, over informers.
type csiManager struct {
	informers.SharedInformerFactory
}

func (c csiManager) CSINodes() fwk.CSINodeLister { return c }

func (c csiManager) List() ([]*storagev1.CSINode, error) {
	return c.Storage().V1().CSINodes().Lister().List(labels.Everything())
}

func (c csiManager) Get(name string) (*storagev1.CSINode, error) {
	return c.Storage().V1().CSINodes().Lister().Get(name)
}

// teamSelector selects the namespaces and pods of a team.
var teamSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}

// podWithEveryRequirement returns a pod whose verdict depends on every plugin.
func podWithEveryRequirement(random *rand.Rand) *v1.Pod {
	pod := fixture.Pod("a").Label("app", "web").Label("tier", "web")
	if random.Intn(2) == 0 {
		pod.Spread(fixture.HardSpreadConstraint("zone", "app", "web")).Spread(fixture.SoftSpreadConstraint("zone", "app", "web"))
	}
	return pod.
		Requests("cpu", fmt.Sprint(random.Intn(4)), "memory", "1Gi", "example.com/gpu", "1").
		Image("web:1").HostPort("", "", int32(80+random.Intn(2))).
		Tolerate("gpu", "", v1.TaintEffectNoSchedule).
		RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("zone", "a", "b"))).
		PreferNodeAffinity(3, fixture.NodeSelectorTerm(fixture.In("zone", "a"))).
		RequirePodAffinity(v1.PodAffinityTerm{TopologyKey: "zone", NamespaceSelector: teamSelector, LabelSelector: teamSelector}).
		PreferPodAffinity(5, fixture.PodAffinityTerm("zone", "app", "web")).
		Claim("data").
		Mutate(func(pod *v1.Pod) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, gceDiskVolume())
			pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
				{Action: v1.ContainerRestartRuleActionRestartAllContainers},
			}
		}).Obj()
}

// gceDiskVolume is a volume that only one pod on a node may use.
func gceDiskVolume() v1.Volume {
	return v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk"}}}
}

// addRandomStorage adds a claim, its volume and the CSINodes of all nodes to the
// informers.
func addRandomStorage(random *rand.Rand, handle informers.SharedInformerFactory) {
	claim := fixture.Claim("data", "fast").BoundTo("pv").Mutate(func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, v1.ReadWriteOnce}[random.Intn(2)]}
	})
	addToInformer(handle.Core().V1().PersistentVolumeClaims().Informer(), claim.Obj())
	addToInformer(handle.Core().V1().PersistentVolumes().Informer(), fixture.Volume("pv", "fast").Mutate(func(v *v1.PersistentVolume) {
		v.Labels = map[string]string{v1.LabelTopologyZone: string(rune('a' + random.Intn(3)))}
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi", VolumeHandle: "pv"}}
	}).Obj())
	for i := range 3 {
		limit := int32(random.Intn(2))
		addToInformer(handle.Storage().V1().CSINodes().Informer(), &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}}},
		})
	}
}

// setRandomFacet sets one facet of node to a random value. It sets the sums of node
// directly: the pods that are summed up are another facet.
func setRandomFacet(random *rand.Rand, facet framework.Facets, node *framework.NodeInfo, handle *fakeHandle) {
	object := node.Node().DeepCopy()
	switch facet {
	case framework.NodeName:
		object.Name = fmt.Sprint("n", random.Intn(3))
	case framework.NodeLabels:
		zone := string(rune('a' + random.Intn(3)))
		object.Labels = map[string]string{"zone": zone, v1.LabelTopologyZone: zone, v1.LabelHostname: "host"}
	case framework.NodeTaints:
		effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule}
		object.Spec.Taints = []v1.Taint{{Key: []string{"gpu", "x"}[random.Intn(2)], Effect: effects[random.Intn(2)]}}
	case framework.NodeUnschedulable:
		object.Spec.Unschedulable = random.Intn(2) == 0
	case framework.NodeAllocatable:
		object.Status.Allocatable = fixture.Resources("pods", fmt.Sprint(random.Intn(4)), "cpu", fmt.Sprint(random.Intn(9)),
			"memory", fmt.Sprintf("%dGi", random.Intn(9)), "example.com/gpu", fmt.Sprint(random.Intn(9)))
	case framework.NodeFeatures:
		object.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}[:random.Intn(2)]
	}
	node.SetNode(object)
	switch facet {
	case framework.NodeImages:
		node.ImageStates = map[string]*fwk.ImageStateSummary{"web:1": {Size: random.Int63n(2 << 30), NumNodes: 1 + random.Intn(2)}}
	case framework.NodePods:
		similar := fixture.Pod("alike").Label("app", "web").Label("tier", "web")
		if random.Intn(2) == 0 {
			similar.Mutate(func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{gceDiskVolume()} })
		}
		node.AddPodInfo(framework.NewNodeInfo(similar.Obj()).GetPods()[0])
	case framework.NodePodCount:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("extra").Obj()).GetPods()[0])
	case framework.NodeRequested:
		node.Requested = framework.NewResource(fixture.Resources("cpu", fmt.Sprint(random.Intn(9)), "memory", "1Gi"))
	case framework.NodeScored:
		node.NonZeroRequested = framework.NewResource(fixture.Resources("cpu", fmt.Sprint(random.Intn(9)), "memory", "2Gi"))
	case framework.NodePorts:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("porter").HostPort("", "", int32(80+random.Intn(2))).Obj()).GetPods()[0])
	case framework.NodeClaims:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("owner").Claim("data").Obj()).GetPods()[0])
	case framework.NodeCount:
		handle.nodes = 2 + random.Intn(5)
	case framework.DomainCounts:
		handle.countsSeed = random.Int63()
	case framework.NamespaceLabels:
		addToInformer(handle.informers.Core().V1().Namespaces().Informer(), fixture.Namespace("default").Label("team", string(rune('x'+random.Intn(2)))).Obj())
	case framework.PodOwners:
		addToInformer(handle.informers.Core().V1().Services().Informer(), fixture.Service("web", []string{"app", "tier"}[random.Intn(2)], "web"))
	case framework.StorageObjects:
		addRandomStorage(random, handle.informers)
	case framework.ClaimsInUse:
		handle.claimsInUse = random.Intn(2) == 0
	case framework.ScoredTogether:
		handle.otherNodes = nil
		for i := range random.Intn(4) {
			handle.otherNodes = append(handle.otherNodes, framework.NewNodeInfo())
			handle.otherNodes[i].(*framework.NodeInfo).SetNode(fixture.Node(fmt.Sprint("beside", i)).Label("zone", fmt.Sprint(random.Intn(3))).Obj())
		}
	}
}

// addToInformer stores an object as an informer would.
func addToInformer(informer toolscache.SharedIndexInformer, object any) {
	// It fails only for an object without a name.
	_ = informer.GetIndexer().Add(object)
}

// verdict is the result of a plugin for a node, as text.
type verdict struct{ filter, score string }

func runPlugin(t *testing.T, plugin fwk.Plugin, pod *v1.Pod, node fwk.NodeInfo, otherNodes []fwk.NodeInfo) (v verdict, filterAsked, scoreAsked framework.Facets) {
	t.Helper()
	state := framework.NewCycleState()
	if prefilter, ok := plugin.(fwk.PreFilterPlugin); ok {
		prefilter.PreFilter(t.Context(), state, pod, nil)
	}
	if filter, ok := plugin.(fwk.FilterPlugin); ok {
		recording := &recordingNodeInfo{NodeInfo: node}
		status := filter.Filter(t.Context(), state, pod, recording)
		v.filter, filterAsked = fmt.Sprint(status.Code(), status.Message()), recording.facets
	}
	if prescore, ok := plugin.(fwk.PreScorePlugin); ok {
		prescore.PreScore(t.Context(), state, pod, append([]fwk.NodeInfo{node}, otherNodes...))
	}
	if score, ok := plugin.(fwk.ScorePlugin); ok {
		recording := &recordingNodeInfo{NodeInfo: node}
		points, status := score.Score(t.Context(), state, pod, recording)
		v.score, scoreAsked = fmt.Sprint(points, status.Message()), recording.facets
	}
	return v, filterAsked, scoreAsked
}

func buildPlugin(t *testing.T, registration framework.Registration, handle fwk.Handle) fwk.Plugin {
	t.Helper()
	var args runtime.Object
	if registration.NewArgs != nil {
		args = registration.NewArgs()
	}
	if registration.Default != nil {
		registration.Default(args)
	}
	plugin, err := registration.New(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	return plugin
}

// opaquePlugins do not declare what they read. They are called in each attempt, like
// out-of-tree plugins.
var opaquePlugins = map[string]bool{"ServiceAffinity": true, "NodePreferAvoidPods": true}

// A cached verdict is valid while the declared facets do not change. So a facet that is
// not declared must not change the verdict, and must not be read.
func TestUndeclaredFacetsDoNotMatter(t *testing.T) {
	for name, registration := range plugins.InTree() {
		handle := newFakeHandle(2)
		plugin := buildPlugin(t, registration, handle)
		_, filters := plugin.(fwk.FilterPlugin)
		_, scores := plugin.(fwk.ScorePlugin)
		reader, declares := plugin.(framework.ReadsDeclarer)
		if !filters && !scores {
			continue
		}
		if opaquePlugins[name] {
			if declares {
				t.Errorf("%s declares what it reads: it is not opaque", name)
			}
			continue
		}
		if !declares {
			t.Errorf("%s does not declare what it reads", name)
			continue
		}
		reads := reader.Reads()
		for seed := range int64(40) {
			for _, changed := range allFacets() {
				random := rand.New(rand.NewSource(seed))
				pod, node := podWithEveryRequirement(random), framework.NewNodeInfo()
				node.SetNode(fixture.Node("n0").Obj())
				for _, facet := range allFacets() {
					setRandomFacet(random, facet, node, handle)
				}
				before, filterAsked, scoreAsked := runPlugin(t, plugin, pod, node, handle.otherNodes)
				if extra := filterAsked &^ withImpliedFacets(reads.Filter); extra != 0 {
					t.Fatalf("%s: Filter reads facets %b beyond the declared %b", name, extra, reads.Filter)
				}
				if extra := scoreAsked &^ withImpliedFacets(reads.Score); extra != 0 {
					t.Fatalf("%s: Score reads facets %b beyond the declared %b", name, extra, reads.Score)
				}
				undo := undoSideEffects(node, changed)
				setRandomFacet(random, changed, node, handle)
				undo(node)
				after, _, _ := runPlugin(t, plugin, pod, node, handle.otherNodes)
				if !reads.Filter.Has(changed) && before.filter != after.filter {
					t.Fatalf("%s, seed %d: Filter depends on facet %b: %q became %q", name, seed, changed, before.filter, after.filter)
				}
				if !reads.Score.Has(changed) && before.score != after.score {
					t.Fatalf("%s, seed %d: Score depends on facet %b: %q became %q", name, seed, changed, before.score, after.score)
				}
			}
		}
	}
}

// withImpliedFacets adds to declared facets those that are read the same way: the pods
// are read to count them.
func withImpliedFacets(declared framework.Facets) framework.Facets {
	if declared.Has(framework.NodePodCount) {
		declared |= framework.NodePods
	}
	return declared | nodeObjectFacets
}

// undoSideEffects returns a function that undoes the side effects of changing one
// facet: a pod that is added for its ports also adds to the sums and to the number of
// pods.
func undoSideEffects(node *framework.NodeInfo, changed framework.Facets) func(*framework.NodeInfo) {
	requested, scored := node.Requested, node.NonZeroRequested
	return func(node *framework.NodeInfo) {
		switch changed {
		case framework.NodePods, framework.NodePodCount, framework.NodePorts, framework.NodeClaims:
			node.Requested, node.NonZeroRequested = requested, scored
		}
		switch changed {
		case framework.NodePods, framework.NodePorts, framework.NodeClaims:
			node.Allocatable.AllowedPodNumber++
		}
	}
}

// Volumes returns volumes over the informers. It creates them once, since an informer
// accepts the same index only once.
func (c *fakeHandle) Volumes() framework.Volumes {
	if c.volumes != nil {
		return c.volumes
	}
	room := volumes.New(volumes.Options{Clock: clock.RealClock{}})
	core := c.informers.Core().V1()
	if err := room.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
		panic(err)
	}
	c.volumes = room
	return room
}

// Devices returns devices without claims.
func (*fakeHandle) Devices() framework.Devices {
	return devices.New(devices.Options{Clock: clock.RealClock{}})
}

// allFacets returns every facet of nodes and of the cluster.
func allFacets() (all []framework.Facets) {
	for facet := framework.NodeName; facet <= framework.ScoredTogether; facet <<= 1 {
		all = append(all, facet)
	}
	return all
}
