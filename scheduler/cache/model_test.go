package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/node/topology"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// model is the reference implementation of the cache: lists that are searched, and
// NodeInfos that are built for every query.
type model struct {
	nodes   map[string]*v1.Node
	pods    map[types.UID]*v1.Pod
	assumed map[types.UID]bool
	zones   []modelZone
	// images are the nodes that have each image, and the size that the first
	// node reported.
	images map[string]*modelImage
	// listed is the order of nodes when nodes were last added or removed.
	listed []string
	// counts is, by node and image, on how many nodes the image was when the
	// node last changed.
	counts  map[string]map[string]int
	touched sets.Set[string]
}

type modelZone struct {
	name  string
	nodes []string
}

type modelImage struct {
	size  int64
	nodes sets.Set[string]
}

func newModel() *model {
	return &model{
		nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}, assumed: map[types.UID]bool{},
		images: map[string]*modelImage{}, counts: map[string]map[string]int{}, touched: sets.New[string](),
	}
}

func (m *model) setNode(node *v1.Node) {
	zone, stays := topology.GetZoneKey(node), false
	if old := m.nodes[node.Name]; old != nil {
		m.removeImages(old)
		if stays = topology.GetZoneKey(old) == zone; !stays {
			m.removeFromZone(node.Name)
		}
	}
	if !stays {
		at := slices.IndexFunc(m.zones, func(z modelZone) bool { return z.name == zone })
		if at < 0 {
			at = len(m.zones)
			m.zones = append(m.zones, modelZone{name: zone})
		}
		m.zones[at].nodes = append(m.zones[at].nodes, node.Name)
	}
	m.nodes[node.Name] = node
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			if m.images[name] == nil {
				m.images[name] = &modelImage{size: image.SizeBytes, nodes: sets.New[string]()}
			}
			m.images[name].nodes.Insert(node.Name)
		}
	}
	m.touched.Insert(node.Name)
}

func (m *model) removeNode(name string) {
	if node := m.nodes[name]; node != nil {
		m.removeImages(node)
		m.removeFromZone(name)
		delete(m.nodes, name)
		m.touched.Insert(name)
	}
}

func (m *model) removeFromZone(node string) {
	for i := range m.zones {
		m.zones[i].nodes = slices.DeleteFunc(m.zones[i].nodes, func(name string) bool { return name == node })
	}
	m.zones = slices.DeleteFunc(m.zones, func(z modelZone) bool { return len(z.nodes) == 0 })
}

func (m *model) removeImages(node *v1.Node) {
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			if state := m.images[name]; state != nil {
				if state.nodes.Delete(node.Name); state.nodes.Len() == 0 {
					delete(m.images, name)
				}
			}
		}
	}
}

func (m *model) setPod(pod *v1.Pod, assumed bool) {
	m.removePod(pod.UID)
	m.pods[pod.UID] = pod
	m.assumed[pod.UID] = assumed
	m.touched.Insert(pod.Spec.NodeName)
}

func (m *model) removePod(uid types.UID) {
	if pod := m.pods[uid]; pod != nil {
		m.touched.Insert(pod.Spec.NodeName)
		delete(m.pods, uid)
		delete(m.assumed, uid)
	}
}

// nodeOrder takes one node of each zone in turn.
func (m *model) nodeOrder() []string {
	var names []string
	for round := 0; len(names) < len(m.nodes); round++ {
		for _, z := range m.zones {
			if round < len(z.nodes) {
				names = append(names, z.nodes[round])
			}
		}
	}
	return names
}

// updateSnapshot does what Cache.UpdateSnapshot does.
func (m *model) updateSnapshot() {
	if !sets.New(m.listed...).Equal(sets.KeySet(m.nodes)) {
		m.listed = m.nodeOrder()
	}
	for name := range m.touched {
		delete(m.counts, name)
		if node := m.nodes[name]; node != nil {
			m.counts[name] = map[string]int{}
			for _, image := range node.Status.Images {
				for _, image := range image.Names {
					m.counts[name][image] = m.images[image].nodes.Len()
				}
			}
		}
	}
	m.touched.Clear()
}

// podsOn returns the pods of a node.
func (m *model) podsOn(node string) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range m.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// nodeInfo builds the NodeInfo of a node.
func (m *model) nodeInfo(name string) *framework.NodeInfo {
	info := framework.NewNodeInfo(m.podsOn(name)...)
	info.SetNode(m.nodes[name])
	return info
}

// modelTest applies one random history to the cache and to the model.
type modelTest struct {
	t     *testing.T
	rng   *rand.Rand
	cache *Cache
	model *model
}

func TestCacheEqualsTheReferenceModel(t *testing.T) {
	runHistories(t, func(*modelTest) {})
}

// The model updates its snapshot at attempts only, as kube-scheduler does.
func TestUpdatesBetweenAttemptsChangeNoAttempt(t *testing.T) {
	runHistories(t, func(w *modelTest) {
		if w.rng.IntN(2) == 0 {
			return
		}
		w.cache.UpdateBetweenAttempts()
		if names := w.cache.NodeNames(); len(names) != len(w.model.nodes) || !sets.KeySet(w.model.nodes).HasAll(names...) {
			w.t.Fatalf("the nodes %q are listed between attempts, want %q", names, sets.List(sets.KeySet(w.model.nodes)))
		}
	})
}

// runHistories compares the cache with the model at each attempt of random histories. It
// calls between after each step.
func runHistories(t *testing.T, between func(*modelTest)) {
	histories := 100
	if testing.Short() {
		histories = 20
	}
	for seed := range uint64(histories) {
		t.Run(fmt.Sprintf("history %d", seed), func(t *testing.T) {
			w := &modelTest{t: t, rng: rand.New(rand.NewPCG(seed, 2)), cache: New(), model: newModel()}
			for range 150 {
				for range w.rng.IntN(4) {
					w.step()
					between(w)
				}
				s := w.cache.UpdateSnapshot()
				w.model.updateSnapshot()
				if diff := cmp.Diff(w.model.snapshotView(), snapshotViewOf(s)); diff != "" {
					t.Fatalf("the snapshot differs from the model (-model +snapshot):\n%s", diff)
				}
			}
			w.clear()
		})
	}
}

func (w *modelTest) step() {
	switch n := w.rng.IntN(100); {
	case n < 30:
		node := w.node()
		w.model.setNode(node)
		w.cache.SetNode(node)
	case n < 40:
		name := w.node().Name
		w.model.removeNode(name)
		w.cache.RemoveNodeByName(name)
	case n < 65:
		pod := w.pod()
		w.model.setPod(pod, false)
		w.cache.SetPod(pod)
	case n < 75:
		pod := w.pod()
		_, known := w.model.pods[pod.UID]
		if removed := w.cache.RemovePodByUID(pod.UID); removed != known {
			w.t.Fatalf("RemovePodByUID returned %v, the model has the pod: %v", removed, known)
		}
		w.model.removePod(pod.UID)
	case n < 90:
		w.assume()
	default:
		uid := w.pod().UID
		if forgot := w.cache.ForgetPod(uid); forgot != w.model.assumed[uid] {
			w.t.Fatalf("ForgetPod returned %v, the pod is assumed in the model: %v", forgot, w.model.assumed[uid])
		}
		if w.model.assumed[uid] {
			w.model.removePod(uid)
		}
	}
}

func (w *modelTest) assume() {
	pod := w.pod()
	info, _ := framework.NewPodInfo(pod)
	_, known := w.model.pods[pod.UID]
	if err := w.cache.AssumePod(info, pod.Spec.NodeName); (err != nil) != known {
		w.t.Fatalf("Assume: %v; the pod has a node: %v", err, known)
	}
	if !known {
		w.model.setPod(pod, true)
	}
	node, assumed := w.cache.AssumedNode(pod.UID)
	if assumed != w.model.assumed[pod.UID] || assumed && node != w.model.pods[pod.UID].Spec.NodeName {
		w.t.Fatalf("assumed on %q: %v", node, assumed)
	}
}

func (w *modelTest) node() *v1.Node {
	b := fixture.Node(fmt.Sprint("n", w.rng.IntN(8))).Capacity("cpu", fmt.Sprint(1+w.rng.IntN(4)))
	if zone := w.rng.IntN(4); zone > 0 {
		b.Zone(fmt.Sprint("z", zone))
	}
	for range w.rng.IntN(3) {
		b.Image(1+w.rng.Int64N(5), fmt.Sprint("image-", w.rng.IntN(3)), fmt.Sprint("image-", w.rng.IntN(3)))
	}
	return b.Obj()
}

func (w *modelTest) pod() *v1.Pod {
	n := w.rng.IntN(15)
	b := fixture.Pod(fmt.Sprint("p", n)).On(fmt.Sprint("n", w.rng.IntN(8))).Requests("cpu", fmt.Sprint(w.rng.IntN(3)))
	switch w.rng.IntN(5) {
	case 0:
		b.RequirePodAffinity(fixture.PodAffinityTerm("zone", "a", "b"))
	case 1:
		b.RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "a", "b"))
	case 2:
		// A port of its own: as in kube-scheduler, a node counts a port once.
		b.HostPort("", v1.ProtocolTCP, 8000+int32(n)).Claim(fmt.Sprint("c", w.rng.IntN(2)))
	}
	return b.Obj()
}

// clear removes everything, and checks that the cache is empty.
func (w *modelTest) clear() {
	for uid := range w.model.pods {
		w.cache.RemovePodByUID(uid)
	}
	for name := range w.model.nodes {
		w.cache.RemoveNodeByName(name)
	}
	s := w.cache.UpdateSnapshot()
	if pods, assumed := w.cache.Sizes(); pods+assumed+s.Len()+len(s.nodes)+len(s.images)+s.nodeTree.size+s.nodeTree.zones.Len() != 0 {
		w.t.Errorf("left: %d pods, %d assumed, %d nodes, %d states, %d images, %d in order, %d zones",
			pods, assumed, s.Len(), len(s.nodes), len(s.images), s.nodeTree.size, s.nodeTree.zones.Len())
	}
}

// snapshotView holds what is compared of a snapshot.
type snapshotView struct {
	Order, Affinity, Anti []string
	Nodes                 map[string]nodeView
	Claims                [2]bool
}

type nodeView struct {
	Pods                           []types.UID
	Requested, Scored, Allocatable framework.Resource
	Ports                          int
	Claims                         map[string]int
	Images                         map[string][2]int64 // size, number of nodes
}

func nodeViewOf(info *framework.NodeInfo) nodeView {
	n := nodeView{
		Requested: info.Requested, Scored: info.NonZeroRequested, Allocatable: info.Allocatable,
		Ports: info.GetUsedPorts().Len(), Claims: map[string]int{}, Images: map[string][2]int64{},
	}
	for claim, count := range info.GetPVCRefCounts() {
		n.Claims[claim] = count
	}
	for _, pod := range info.GetPods() {
		n.Pods = append(n.Pods, pod.GetPod().UID)
	}
	slices.Sort(n.Pods)
	return n
}

func snapshotViewOf(s *Snapshot) snapshotView {
	all := snapshotView{Nodes: map[string]nodeView{}}
	lister := s.NodeInfos()
	list, _ := lister.List()
	affinity, _ := lister.HavePodsWithAffinityList()
	anti, _ := lister.HavePodsWithRequiredAntiAffinityList()
	all.Order, all.Affinity, all.Anti = nodeNames(list), nodeNames(affinity), nodeNames(anti)
	for _, name := range all.Order {
		info := s.Node(name)
		n := nodeViewOf(info)
		for name, summary := range info.GetImageStates() {
			n.Images[name] = [2]int64{summary.Size, int64(summary.NumNodes)}
		}
		all.Nodes[name] = n
	}
	for i := range all.Claims {
		all.Claims[i] = s.StorageInfos().IsPVCUsedByPods(fmt.Sprint("default/c", i))
	}
	return all
}

func (m *model) snapshotView() snapshotView {
	all := snapshotView{Order: m.listed, Nodes: map[string]nodeView{}}
	for _, name := range m.listed {
		info := m.nodeInfo(name)
		n := nodeViewOf(info)
		for image, count := range m.counts[name] {
			n.Images[image] = [2]int64{m.images[image].size, int64(count)}
		}
		all.Nodes[name] = n
		if len(info.GetPodsWithAffinity()) > 0 {
			all.Affinity = append(all.Affinity, name)
		}
		if len(info.GetPodsWithRequiredAntiAffinity()) > 0 {
			all.Anti = append(all.Anti, name)
		}
		for i := range all.Claims {
			all.Claims[i] = all.Claims[i] || n.Claims[fmt.Sprint("default/c", i)] > 0
		}
	}
	if len(m.listed) == 0 {
		all.Order = nil
	}
	return all
}

func nodeNames(nodes []fwk.NodeInfo) []string {
	var all []string
	for _, node := range nodes {
		all = append(all, node.Node().Name)
	}
	return all
}
