package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/node/topology"

	"github.com/berthdev/berth/scheduler/framework"
)

// model is what is where in its dumb form: lists that are looked through, and
// NodeInfos that are made anew for every question.
type model struct {
	nodes   map[string]*v1.Node
	pods    map[types.UID]*v1.Pod
	assumed map[types.UID]bool // assumed
	zones   []modelZone
	// images are on which nodes, and how large the first one said they are.
	images map[string]*modelImage
	// listed is the order of nodes as it was when nodes last came or went.
	listed []string
	// counts is on how many nodes each image of a node was, when something
	// about the node last changed.
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

// order goes round the zones.
func (m *model) nodeOrder() []string {
	var names []string
	for turn := 0; len(names) < len(m.nodes); turn++ {
		for _, z := range m.zones {
			if turn < len(z.nodes) {
				names = append(names, z.nodes[turn])
			}
		}
	}
	return names
}

// refresh is the moment at which the snapshot moves.
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

// on is the pods of a node.
func (m *model) podsOn(node string) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range m.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// info is a node from scratch.
func (m *model) nodeInfo(name string) *framework.NodeInfo {
	info := framework.NewNodeInfo(m.podsOn(name)...)
	info.SetNode(m.nodes[name])
	return info
}
