package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/test/support/fixture"
)

// web are the pods with the label app: web.
var web = &counts.PodSet{Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}

// nodesOf describes each node, with the order of its pods.
func nodesOf(s *Snapshot) (nodes []string) {
	for _, node := range s.Nodes() {
		slot := s.nodes[node.Node().Name].slot
		nodes = append(nodes, fmt.Sprint(node, " images ", len(node.GetImageStates()), " row ", s.Columns().Rows[slot].RequestedCPU,
			" claims ", node.GetPVCRefCounts(), " web ", s.incremental.ByNode(web).BySlot[slot]))
	}
	return nodes
}

// sessionHistory applies the same random changes to two caches. Only the snapshot of the first has
// sessions of mutations.
type sessionHistory struct {
	*rand.Rand
	cache, plain *Cache
	pods         []*v1.Pod
}

func (h *sessionHistory) apply(change func(c *Cache)) {
	change(h.cache)
	change(h.plain)
}

func (h *sessionHistory) update() {
	h.apply(func(c *Cache) { c.UpdateSnapshot() })
}

func (h *sessionHistory) node() string { return fmt.Sprint("n", h.IntN(4)) }

func (h *sessionHistory) setNode(name string) {
	node := fixture.Node(name).Label("zone", name).Capacity("cpu", "64").Image(1<<30, "web").Obj()
	h.apply(func(c *Cache) { c.SetNode(node) })
}

// newVersion returns a version of a pod that the caches do not have.
func (h *sessionHistory) newVersion(i int, node string) *v1.Pod {
	b := fixture.Pod(fmt.Sprint("p", i)).Requests("cpu", fmt.Sprint(1+h.IntN(4))).Label("app", []string{"web", "db"}[h.IntN(2)]).On(node)
	switch i % 3 {
	case 0:
		b = b.HostPort("", v1.ProtocolTCP, 80) // also where another pod of the node has it
	case 1:
		b = b.Claim(fmt.Sprint("c", h.IntN(2)))
	}
	return b.Obj()
}

// setPod adds a pod, or another version of it.
func (h *sessionHistory) setPod(i int, node string) {
	h.pods[i] = h.newVersion(i, node)
	h.apply(func(c *Cache) { c.SetPod(h.pods[i]) })
}

// meanwhile is what happens while a session is suspended.
func (h *sessionHistory) meanwhile() {
	for range h.IntN(4) {
		i := h.IntN(len(h.pods))
		switch h.IntN(6) {
		case 0:
			h.apply(func(c *Cache) { c.RemovePodByUID(h.pods[i].UID) })
		case 1:
			h.setPod(i, h.node())
		case 2:
			name := h.node()
			h.apply(func(c *Cache) { c.RemoveNodeByName(name) })
			if h.IntN(2) == 0 {
				h.update()
			}
			h.setNode(name)
		default:
			h.setPod(i, h.pods[i].Spec.NodeName)
		}
	}
	h.update()
}

// mutate is one step of a session. It may add a version of a pod that is not the newest, also
// where another one is on the node.
func (h *sessionHistory) mutate(t *testing.T) {
	i := h.IntN(len(h.pods))
	s, pod := h.cache.Snapshot(), h.pods[i]
	if h.IntN(4) == 0 {
		if info, _ := framework.NewPodInfo(h.newVersion(i, pod.Spec.NodeName)); s.AddPod(info, pod.Spec.NodeName) != nil {
			t.Fatalf("node %s does not exist", pod.Spec.NodeName)
		}
	}
	if err := s.RemovePod(klog.Background(), pod, pod.Spec.NodeName); err != nil {
		return // it is away
	}
	if h.IntN(3) == 0 {
		s.SuspendMutations(h.meanwhile)
	}
	if info, _ := framework.NewPodInfo(pod); h.IntN(2) == 0 {
		if err := s.AddPod(info, pod.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever a session changes, and whatever happens to its pods and nodes while it is suspended, the
// snapshot is after it as if there had been none: the pods in their order, the sums and the counts.
func TestASessionOfMutationsLeavesNothingBehind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		h := &sessionHistory{random, New(), New(), make([]*v1.Pod, 12)}
		for i := range 4 {
			h.setNode(fmt.Sprint("n", i))
		}
		for i := range h.pods {
			h.setPod(i, h.node())
		}
		h.apply(func(c *Cache) { c.RemovePod(h.pods[0]) })
		h.update()
		same := func(when string) {
			t.Helper()
			if diff := cmp.Diff(nodesOf(h.plain.Snapshot()), nodesOf(h.cache.Snapshot())); diff != "" {
				t.Fatalf("round %d, %s (-without a session +with it):\n%s", round, when, diff)
			}
		}
		same("before it")
		s := h.cache.Snapshot()
		if err := s.StartMutations(); err != nil {
			t.Fatal(err)
		}
		for range random.IntN(20) {
			h.mutate(t)
		}
		foreign, _ := framework.NewPodInfo(fixture.Pod("foreign").Requests("cpu", "2").Obj())
		if err := s.AddPod(foreign, "n1"); err != nil {
			t.Fatal(err)
		}
		if images := s.Node("n1").ImageStates; len(images) != 0 {
			t.Errorf("images count during a session: %v", images)
		}
		if err := s.EndMutations(); err != nil {
			t.Fatal(err)
		}
		same("after it")
		h.apply(func(c *Cache) {
			for _, pod := range h.pods {
				c.RemovePod(pod)
			}
		})
		h.update()
		same("without the pods")
	}
}

func TestMutationsNeedASession(t *testing.T) {
	c := New()
	c.SetNode(fixture.Node("n").Obj())
	s := c.UpdateSnapshot()
	info, _ := framework.NewPodInfo(fixture.Pod("p").Obj())
	for name, err := range map[string]error{
		"add": s.AddPod(info, "n"), "remove": s.RemovePod(klog.Background(), info.GetPod(), "n"), "end": s.EndMutations(),
	} {
		if err == nil {
			t.Errorf("%s is accepted without a session", name)
		}
	}
	if err := s.StartMutations(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a second session": s.StartMutations(), "an unknown node": s.AddPod(info, "m"), "a pod that is not there": s.RemovePod(klog.Background(), info.GetPod(), "n"),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Other pods come and go while an overlay is suspended. Then the snapshot is as if they had been
// there before it, and the nodes that they changed are known.
func TestASuspendedOverlay(t *testing.T) {
	info := func(name string) *framework.PodInfo {
		info, _ := framework.NewPodInfo(fixture.Pod(name).Requests("cpu", "1").Obj())
		return info
	}
	for name, test := range map[string]struct {
		update func(c *Cache)
		want   []string
	}{
		"nothing changes": {func(c *Cache) {}, nil},
		"its own pods count meanwhile": {func(c *Cache) {
			for node, name := range map[string]string{"n0": "a", "n1": "b"} {
				if err := c.AssumePod(info(name), node); err != nil {
					t.Error(err)
				}
			}
			c.UpdateSnapshot()
			c.ForgetPod(info("a").OriginalPod().UID)
			c.ForgetPod(info("b").OriginalPod().UID)
		}, nil},
		"a pod comes":         {func(c *Cache) { c.SetPod(fixture.Pod("c").Requests("cpu", "1").On("n1").Obj()) }, []string{"n1"}},
		"a pod goes":          {func(c *Cache) { c.RemovePod(fixture.Pod("there").On("n0").Obj()) }, []string{"n0"}},
		"a node changes":      {func(c *Cache) { c.SetNode(fixture.Node("n1").Capacity("cpu", "4").Obj()) }, []string{"n1"}},
		"a node goes":         {func(c *Cache) { c.RemoveNodeByName("n1") }, []string{"n1"}},
		"another one changes": {func(c *Cache) { c.SetNode(fixture.Node("n2").Capacity("cpu", "4").Obj()) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			build := func() *Cache {
				c := New()
				for i := range 3 {
					c.SetNode(fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", "8").Obj())
				}
				c.SetPod(fixture.Pod("there").Requests("cpu", "1").On("n0").Obj())
				return c
			}
			c := build()
			o := c.UpdateSnapshot().NewOverlay()
			o.Add(info("a"), "n0")
			o.Add(info("b"), "n1")
			changed := o.Suspend(func(pods []*framework.PodInfo) {
				if len(pods) != 2 || pods[0].NodeName() != "n0" || pods[1].NodeName() != "n1" {
					t.Errorf("suspended %v", pods)
				}
				test.update(c)
				c.UpdateSnapshot()
			})
			if diff := cmp.Diff(sets.New(test.want...), changed); diff != "" {
				t.Errorf("changed nodes (-want +got):\n%s", diff)
			}
			want := build()
			test.update(want)
			overlay := want.UpdateSnapshot().NewOverlay()
			overlay.Add(info("a"), "n0")
			overlay.Add(info("b"), "n1")
			if diff := cmp.Diff(nodesOf(want.Snapshot()), nodesOf(c.Snapshot())); diff != "" {
				t.Errorf("with the overlay (-want +got):\n%s", diff)
			}
			o.RemoveLast()
			o.RemoveLast()
			overlay.RemoveLast()
			overlay.RemoveLast()
			if diff := cmp.Diff(nodesOf(want.Snapshot()), nodesOf(c.Snapshot())); diff != "" {
				t.Errorf("without it (-want +got):\n%s", diff)
			}
		})
	}
}

// A session of mutations is suspended. After it, it has the same changes, as far as the pods are
// where they were; while it is suspended, and in the end, none of them is seen.
func TestASuspendedSessionOfMutations(t *testing.T) {
	pod := func(name, node string) *v1.Pod { return fixture.Pod(name).Requests("cpu", "1").On(node).Obj() }
	for name, test := range map[string]struct {
		update func(c *Cache)
		// inside are the pods of the nodes in the session, outside those of the snapshot.
		inside, outside map[string]string
		// away are the CPUs of a where the session still takes it away.
		away string
	}{
		"nothing changes": {func(c *Cache) {},
			map[string]string{"n0": "b", "n1": "c x"}, map[string]string{"n0": "a b", "n1": "c d"}, "1"},
		"a pod comes": {func(c *Cache) { c.SetPod(pod("e", "n0")) },
			map[string]string{"n0": "b e", "n1": "c x"}, map[string]string{"n0": "a b e", "n1": "c d"}, "1"},
		"a removed one goes": {func(c *Cache) { c.RemovePod(pod("a", "n0")) },
			map[string]string{"n0": "b", "n1": "c x"}, map[string]string{"n0": "b", "n1": "c d"}, ""},
		"a removed one moves": {func(c *Cache) { c.SetPod(pod("a", "n1")) },
			map[string]string{"n0": "b", "n1": "a c x"}, map[string]string{"n0": "b", "n1": "a c d"}, ""},
		"a removed one changes": {func(c *Cache) { c.SetPod(fixture.Pod("a").Requests("cpu", "2").On("n0").Obj()) },
			map[string]string{"n0": "b", "n1": "c x"}, map[string]string{"n0": "a b", "n1": "c d"}, "2"},
		"an added one comes": {func(c *Cache) { c.SetPod(pod("x", "n1")) },
			map[string]string{"n0": "b", "n1": "c x"}, map[string]string{"n0": "a b", "n1": "c d x"}, "1"},
		"a node goes with its pods": {func(c *Cache) {
			c.RemovePod(pod("a", "n0"))
			c.RemovePod(pod("b", "n0"))
			c.RemoveNodeByName("n0")
		}, map[string]string{"n1": "c x"}, map[string]string{"n1": "c d"}, ""},
		"a node goes before its pods": {func(c *Cache) { c.RemoveNodeByName("n0") },
			map[string]string{"n1": "c x"}, map[string]string{"n1": "c d"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			for i := range 2 {
				c.SetNode(fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", "8").Image(1<<30, "web").Obj())
			}
			for _, p := range []*v1.Pod{pod("a", "n0"), pod("b", "n0"), pod("c", "n1"), pod("d", "n1")} {
				c.SetPod(p)
			}
			s := c.UpdateSnapshot()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			want := func(when string, want map[string]string) {
				t.Helper()
				got := map[string]string{}
				for _, node := range s.Nodes() {
					var names []string
					for _, info := range node.GetPods() {
						names = append(names, info.GetPod().Name)
					}
					slices.Sort(names)
					got[node.Node().Name] = strings.Join(names, " ")
					if cpu := s.Columns().Rows[s.nodes[node.Node().Name].slot].RequestedCPU; cpu != node.GetRequested().GetMilliCPU() {
						t.Errorf("%s: the columns have %d, %s requests %d", when, cpu, node.Node().Name, node.GetRequested().GetMilliCPU())
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
			}
			must(s.StartMutations())
			must(s.RemovePod(klog.Background(), pod("a", "n0"), "n0"))
			must(s.RemovePod(klog.Background(), pod("d", "n1"), "n1"))
			x, _ := framework.NewPodInfo(pod("x", ""))
			must(s.AddPod(x, "n1"))
			s.SuspendMutations(func() {
				test.update(c)
				c.UpdateSnapshot()
				want("suspended", test.outside)
			})
			want("inside", test.inside)
			away := ""
			if info := s.RemovedPod(pod("a", "n0").UID, "n0"); info != nil {
				away = info.GetPod().Spec.Containers[0].Resources.Requests.Cpu().String()
			}
			if away != test.away {
				t.Errorf("a is away with %q CPUs, want %q", away, test.away)
			}
			must(s.EndMutations())
			want("after it", test.outside)
		})
	}
}
