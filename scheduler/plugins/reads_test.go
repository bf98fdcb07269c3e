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

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fixture"
)

// recorder is a NodeInfo that notes which facets it is asked for. What Node()
// leads to it cannot see; TestUndeclaredFacetsDoNotMatter looks at that.
type recordingNodeInfo struct {
	fwk.NodeInfo
	facets framework.Facets
}

// ofNode are the facets that can be read from Node().
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

// cluster is a handle that knows what verdicts may depend on beside the node:
// how many nodes there are, what the counts say, and whose pods are whose.
type fakeHandle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes     int
	informers informers.SharedInformerFactory
	// counts is what the numbers of pods by domain are drawn from.
	countsSeed int64
	// inUse says that some pod uses every claim.
	claimsInUse bool
	// volumes is nil until somebody asks for it.
	volumes framework.Volumes
	// beside are the nodes that are scored together with the one in question.
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
func (c *fakeHandle) Counts() framework.Counts                               { return c }

// tally draws numbers for domains that the question decides as well.
func (c *fakeHandle) randomTally(question ...any) *framework.DomainSums {
	hash := fnv.New64()
	fmt.Fprint(hash, c.countsSeed, question)
	dice := rand.New(rand.NewSource(int64(hash.Sum64())))
	return framework.NewDomainSums(map[string]int64{"": dice.Int63n(4), "a": dice.Int63n(4), "b": dice.Int63n(4), "c": dice.Int63n(4)})
}

func (c *fakeHandle) Pods(queries ...framework.PodQuery) []*framework.DomainSums {
	tallies := make([]*framework.DomainSums, len(queries))
	for i, q := range queries {
		tallies[i] = c.randomTally(q.TopologyKey, q.Pods.Selector, q.Pods.Namespaces)
	}
	return tallies
}

func (c *fakeHandle) Terms(q framework.TermQuery) *framework.TermSums {
	return &framework.TermSums{ByTopologyKey: map[string]*framework.DomainSums{"zone": c.randomTally(q.Namespace, q.RequiredAntiAffinity)}}
}

func (c *fakeHandle) PodsOnNode(node fwk.NodeInfo, pods *framework.PodSet) int64 {
	return pods.CountOnNode(node)
}

// csiNodes is a CSIManager, and its lister, over informers.
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

// teamX selects namespaces, and pods, of a team.
var teamSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}

// picky is a pod with a wish for every plugin.
func podWithEveryRequirement(dice *rand.Rand) *v1.Pod {
	pod := fixture.Pod("a").Label("app", "web").Label("tier", "web")
	if dice.Intn(2) == 0 {
		pod.Spread(fixture.HardSpreadConstraint("zone", "app", "web")).Spread(fixture.SoftSpreadConstraint("zone", "app", "web"))
	}
	return pod.
		Requests("cpu", fmt.Sprint(dice.Intn(4)), "memory", "1Gi", "example.com/gpu", "1").
		Image("web:1").HostPort("", "", int32(80+dice.Intn(2))).
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

// disk is a volume that one pod on a node may have.
func gceDiskVolume() v1.Volume {
	return v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk"}}}
}

// randomStorage puts a claim, its volume and the drivers of all nodes where
// plugins find them.
func addRandomStorage(dice *rand.Rand, all informers.SharedInformerFactory) {
	claim := fixture.Claim("data", "fast").BoundTo("pv").Mutate(func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, v1.ReadWriteOnce}[dice.Intn(2)]}
	})
	addToInformer(all.Core().V1().PersistentVolumeClaims().Informer(), claim.Obj())
	addToInformer(all.Core().V1().PersistentVolumes().Informer(), fixture.Volume("pv", "fast").Mutate(func(v *v1.PersistentVolume) {
		v.Labels = map[string]string{v1.LabelTopologyZone: string(rune('a' + dice.Intn(3)))}
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi", VolumeHandle: "pv"}}
	}).Obj())
	for i := range 3 {
		most := int32(dice.Intn(2))
		addToInformer(all.Storage().V1().CSINodes().Informer(), &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: &most}}}},
		})
	}
}

// randomFacet gives node another value of one facet. It changes node's sums as
// they are: what they are sums of is another facet.
func setRandomFacet(dice *rand.Rand, facet framework.Facets, node *framework.NodeInfo, all *fakeHandle) {
	object := node.Node().DeepCopy()
	switch facet {
	case framework.NodeName:
		object.Name = fmt.Sprint("n", dice.Intn(3))
	case framework.NodeLabels:
		zone := string(rune('a' + dice.Intn(3)))
		object.Labels = map[string]string{"zone": zone, v1.LabelTopologyZone: zone, v1.LabelHostname: "host"}
	case framework.NodeTaints:
		effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule}
		object.Spec.Taints = []v1.Taint{{Key: []string{"gpu", "x"}[dice.Intn(2)], Effect: effects[dice.Intn(2)]}}
	case framework.NodeUnschedulable:
		object.Spec.Unschedulable = dice.Intn(2) == 0
	case framework.NodeAllocatable:
		object.Status.Allocatable = fixture.Resources("pods", fmt.Sprint(dice.Intn(4)), "cpu", fmt.Sprint(dice.Intn(9)),
			"memory", fmt.Sprintf("%dGi", dice.Intn(9)), "example.com/gpu", fmt.Sprint(dice.Intn(9)))
	case framework.NodeFeatures:
		object.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}[:dice.Intn(2)]
	}
	node.SetNode(object)
	switch facet {
	case framework.NodeImages:
		node.ImageStates = map[string]*fwk.ImageStateSummary{"web:1": {Size: dice.Int63n(2 << 30), NumNodes: 1 + dice.Intn(2)}}
	case framework.NodePods:
		alike := fixture.Pod("alike").Label("app", "web").Label("tier", "web")
		if dice.Intn(2) == 0 {
			alike.Mutate(func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{gceDiskVolume()} })
		}
		node.AddPodInfo(framework.NewNodeInfo(alike.Obj()).GetPods()[0])
	case framework.NodePodCount:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("extra").Obj()).GetPods()[0])
	case framework.NodeRequested:
		node.Requested = framework.NewResource(fixture.Resources("cpu", fmt.Sprint(dice.Intn(9)), "memory", "1Gi"))
	case framework.NodeScored:
		node.NonZeroRequested = framework.NewResource(fixture.Resources("cpu", fmt.Sprint(dice.Intn(9)), "memory", "2Gi"))
	case framework.NodePorts:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("porter").HostPort("", "", int32(80+dice.Intn(2))).Obj()).GetPods()[0])
	case framework.NodeClaims:
		node.AddPodInfo(framework.NewNodeInfo(fixture.Pod("owner").Claim("data").Obj()).GetPods()[0])
	case framework.NodeCount:
		all.nodes = 2 + dice.Intn(5)
	case framework.DomainCounts:
		all.countsSeed = dice.Int63()
	case framework.NamespaceLabels:
		addToInformer(all.informers.Core().V1().Namespaces().Informer(), fixture.Namespace("default").Label("team", string(rune('x'+dice.Intn(2)))).Obj())
	case framework.PodOwners:
		addToInformer(all.informers.Core().V1().Services().Informer(), fixture.Service("web", []string{"app", "tier"}[dice.Intn(2)], "web"))
	case framework.StorageObjects:
		addRandomStorage(dice, all.informers)
	case framework.ClaimsInUse:
		all.claimsInUse = dice.Intn(2) == 0
	case framework.ScoredTogether:
		all.otherNodes = nil
		for i := range dice.Intn(4) {
			all.otherNodes = append(all.otherNodes, framework.NewNodeInfo())
			all.otherNodes[i].(*framework.NodeInfo).SetNode(fixture.Node(fmt.Sprint("beside", i)).Label("zone", fmt.Sprint(dice.Intn(3))).Obj())
		}
	}
}

// put stores an object as an informer would.
func addToInformer(informer toolscache.SharedIndexInformer, object any) {
	// It fails only for an object without a name.
	_ = informer.GetIndexer().Add(object)
}

// verdict is what a plugin says about a node, as text.
type verdict struct{ filter, score string }

func runPlugin(t *testing.T, plugin fwk.Plugin, pod *v1.Pod, node fwk.NodeInfo, beside []fwk.NodeInfo) (v verdict, filterAsked, scoreAsked framework.Facets) {
	t.Helper()
	state := framework.NewCycleState()
	if prefilter, ok := plugin.(fwk.PreFilterPlugin); ok {
		prefilter.PreFilter(t.Context(), state, pod, nil)
	}
	if filter, ok := plugin.(fwk.FilterPlugin); ok {
		watched := &recordingNodeInfo{NodeInfo: node}
		status := filter.Filter(t.Context(), state, pod, watched)
		v.filter, filterAsked = fmt.Sprint(status.Code(), status.Message()), watched.facets
	}
	if prescore, ok := plugin.(fwk.PreScorePlugin); ok {
		prescore.PreScore(t.Context(), state, pod, append([]fwk.NodeInfo{node}, beside...))
	}
	if score, ok := plugin.(fwk.ScorePlugin); ok {
		watched := &recordingNodeInfo{NodeInfo: node}
		points, status := score.Score(t.Context(), state, pod, watched)
		v.score, scoreAsked = fmt.Sprint(points, status.Message()), watched.facets
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

// opaque are plugins that declare nothing: they are asked each time, as plugins
// from outside are.
var opaquePlugins = map[string]bool{"ServiceAffinity": true, "NodePreferAvoidPods": true}

// A remembered verdict is good while the declared facets stand still, so a
// facet that is not declared must not matter, and must not be asked for.
func TestUndeclaredFacetsDoNotMatter(t *testing.T) {
	for name, registration := range plugins.InTree() {
		all := newFakeHandle(2)
		plugin := buildPlugin(t, registration, all)
		_, filters := plugin.(fwk.FilterPlugin)
		_, scores := plugin.(fwk.ScorePlugin)
		reader, declares := plugin.(framework.ReadsDeclarer)
		if !filters && !scores {
			continue
		}
		if opaquePlugins[name] {
			if declares {
				t.Errorf("%s says what its verdicts read: it is opaque no more", name)
			}
			continue
		}
		if !declares {
			t.Errorf("%s does not say what its verdicts read", name)
			continue
		}
		reads := reader.Reads()
		for seed := range int64(40) {
			for _, changed := range framework.AllFacets {
				dice := rand.New(rand.NewSource(seed))
				pod, node := podWithEveryRequirement(dice), framework.NewNodeInfo()
				node.SetNode(fixture.Node("n0").Obj())
				for _, facet := range framework.AllFacets {
					setRandomFacet(dice, facet, node, all)
				}
				before, filterAsked, scoreAsked := runPlugin(t, plugin, pod, node, all.otherNodes)
				if extra := filterAsked &^ withImpliedFacets(reads.Filter); extra != 0 {
					t.Fatalf("%s: Filter asks for facets %b beyond the declared %b", name, extra, reads.Filter)
				}
				if extra := scoreAsked &^ withImpliedFacets(reads.Score); extra != 0 {
					t.Fatalf("%s: Score asks for facets %b beyond the declared %b", name, extra, reads.Score)
				}
				alone := undoSideEffects(node, changed)
				setRandomFacet(dice, changed, node, all)
				alone(node)
				after, _, _ := runPlugin(t, plugin, pod, node, all.otherNodes)
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

// covers adds to declared facets those that are read the same way: whoever
// counts the pods asks for the pods.
func withImpliedFacets(declared framework.Facets) framework.Facets {
	if declared.Has(framework.NodePodCount) {
		declared |= framework.NodePods
	}
	return declared | nodeObjectFacets
}

// isolate returns what undoes the side effects of a change to one facet: a pod
// that is added for its ports also adds to the sums and to the count.
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
