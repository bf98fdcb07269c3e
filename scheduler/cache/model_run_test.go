package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// walk is one random history, told to the cache and to the model.
type modelTest struct {
	t     *testing.T
	rng   *rand.Rand
	cache *Cache
	model *model
}

func TestCacheEqualsTheReferenceModel(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprintf("history %d", seed), func(t *testing.T) {
			w := &modelTest{t: t, rng: rand.New(rand.NewPCG(seed, 2)), cache: New(), model: newModel()}
			for range 150 {
				for range w.rng.IntN(4) {
					w.step()
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
			w.t.Fatalf("Remove says %v of a pod that is known: %v", removed, known)
		}
		w.model.removePod(pod.UID)
	case n < 90:
		w.assume()
	default:
		uid := w.pod().UID
		if forgot := w.cache.ForgetPod(uid); forgot != w.model.assumed[uid] {
			w.t.Fatalf("Forget says %v of a pod that is assumed: %v", forgot, w.model.assumed[uid])
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
		// A port of its own: like upstream, a node counts no two pods on one.
		b.HostPort("", v1.ProtocolTCP, 8000+int32(n)).Claim(fmt.Sprint("c", w.rng.IntN(2)))
	}
	return b.Obj()
}

// clear takes everything away, after which nothing is left.
func (w *modelTest) clear() {
	for uid := range w.model.pods {
		w.cache.RemovePodByUID(uid)
	}
	for name := range w.model.nodes {
		w.cache.RemoveNodeByName(name)
	}
	s := w.cache.UpdateSnapshot()
	if pods, assumed := w.cache.Sizes(); pods+assumed+s.Len()+len(s.nodes)+len(s.images)+len(s.nodeTree.positions)+s.nodeTree.zones.Len() != 0 {
		w.t.Errorf("left: %d pods, %d assumed, %d nodes, %d states, %d images, %d in order, %d zones",
			pods, assumed, s.Len(), len(s.nodes), len(s.images), len(s.nodeTree.positions), s.nodeTree.zones.Len())
	}
}

// image is what is compared of a snapshot.
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
