package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func newPodInfo(b *fixture.PodBuilder) *framework.PodInfo {
	info, _ := framework.NewPodInfo(b.Obj())
	return info
}

// listed is the snapshot's list of nodes.
func updatedNodeNames(c *Cache) []string { return nodeNames(c.UpdateSnapshot().Nodes()) }

var cacheTests = map[string]func(t *testing.T, c *Cache){
	"nothing moves before Refresh": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		s := c.UpdateSnapshot()
		before := s.Node("n").GetGeneration()
		if err := c.AssumePod(newPodInfo(fixture.Pod("a")), "n"); err != nil {
			t.Fatal(err)
		}
		if n := s.Node("n"); len(n.GetPods()) != 0 || n.GetGeneration() != before {
			t.Error("the assumed pod is seen before the next Refresh")
		}
		if c.UpdateSnapshot() != s || c.Snapshot() != s {
			t.Error("Refresh returns another value")
		}
		if len(s.Node("n").GetPods()) != 1 {
			t.Error("the assumed pod is not seen after Refresh")
		}
	},
	"zones take turns, and a new zone comes last": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
			c.SetNode(fixture.Node(n).Zone(n[:1]).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a1", "b1", "c1", "a2", "c2", "a3")
	},
	"a mere change of zone does not change the order until nodes come or go": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a1", "a2", "b1"} {
			c.SetNode(fixture.Node(n).Zone(n[:1]).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a1", "b1", "a2")
		c.SetNode(fixture.Node("a1").Zone("b").Obj())
		wantNames(t, updatedNodeNames(c), "a1", "b1", "a2")
		c.SetNode(fixture.Node("c1").Zone("c").Obj())
		wantNames(t, updatedNodeNames(c), "a2", "b1", "c1", "a1")
	},
	"a node that goes and comes between two refreshes keeps its place until then": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a", "b", "c"} {
			c.SetNode(fixture.Node(n).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a", "b", "c")
		c.RemoveNodeByName("a")
		c.SetNode(fixture.Node("a").Obj())
		wantNames(t, updatedNodeNames(c), "a", "b", "c")
		c.RemoveNodeByName("b")
		wantNames(t, updatedNodeNames(c), "c", "a")
	},
	"the pods of a node that went wait for its return": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		c.SetPod(fixture.Pod("a").On("n").Obj())
		c.UpdateSnapshot()
		c.RemoveNodeByName("n")
		if s := c.UpdateSnapshot(); s.Len() != 0 || s.Node("n") != nil {
			t.Error("a node that is gone is listed")
		}
		if _, err := c.Snapshot().NodeInfos().Get("n"); err == nil {
			t.Error("a node that is gone is found")
		}
		c.SetNode(fixture.Node("n").Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods on the node that came back, want 1", len(pods))
		}
	},
	"a pod that came before its node is there when the node comes": func(t *testing.T, c *Cache) {
		c.SetPod(fixture.Pod("a").On("n").Obj())
		if c.UpdateSnapshot().Len() != 0 {
			t.Error("a node that nobody set is listed")
		}
		c.SetNode(fixture.Node("n").Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods, want 1", len(pods))
		}
	},
	"a pod that is bound elsewhere than assumed is where the API server says": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		c.SetNode(fixture.Node("m").Obj())
		if err := c.AssumePod(newPodInfo(fixture.Pod("a")), "n"); err != nil {
			t.Fatal(err)
		}
		c.SetPod(fixture.Pod("a").On("m").Obj())
		s := c.UpdateSnapshot()
		if len(s.Node("n").GetPods()) != 0 || len(s.Node("m").GetPods()) != 1 {
			t.Error("the pod is not on m alone")
		}
		if c.ForgetPod("default/a") {
			t.Error("what the API server said was forgotten")
		}
	},
	"an image's number of nodes is learned when the node changes": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Image(5, "i").Obj())
		c.UpdateSnapshot()
		c.SetNode(fixture.Node("m").Image(7, "i").Obj())
		s := c.UpdateSnapshot()
		wantImage(t, s, "n", 5, 1) // as it was when n changed last
		wantImage(t, s, "m", 5, 2) // the first size that was told
		c.SetPod(fixture.Pod("a").On("n").Obj())
		c.UpdateSnapshot()
		wantImage(t, s, "n", 5, 2)
	},
	"a malformed affinity term does not hide its pod": func(t *testing.T, c *Cache) {
		term := fixture.PodAffinityTerm("zone", "a", "b")
		term.LabelSelector.MatchLabels = map[string]string{"not a key!": "x"}
		c.SetNode(fixture.Node("n").Obj())
		c.SetPod(fixture.Pod("a").On("n").RequirePodAffinity(term).Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods, want 1", len(pods))
		}
	},
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func wantImage(t *testing.T, s *Snapshot, node string, size int64, nodes int) {
	t.Helper()
	if i := s.Node(node).GetImageStates()["i"]; i.Size != size || i.NumNodes != nodes {
		t.Errorf("%s: size %d on %d nodes, want %d on %d", node, i.Size, i.NumNodes, size, nodes)
	}
}

func TestCache(t *testing.T) {
	for sentence, history := range cacheTests {
		t.Run(sentence, func(t *testing.T) { history(t, New()) })
	}
}

func TestConcurrentWritersAndOneReader(t *testing.T) {
	c := New()
	var writers sync.WaitGroup
	for n := range uint64(4) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(n, 0))
			for range 500 {
				node := fmt.Sprint("n", rng.IntN(5))
				pod := fixture.Pod(fmt.Sprint("p", n, "-", rng.IntN(5)))
				switch rng.IntN(5) {
				case 0:
					c.SetNode(fixture.Node(node).Image(1, "i").Obj())
				case 1:
					c.RemoveNodeByName(node)
				case 2:
					c.SetPod(pod.On(node).Obj())
				case 3:
					_ = c.AssumePod(newPodInfo(pod), node) // refused where it has a node
				default:
					c.RemovePodByUID(pod.Obj().UID)
				}
			}
		})
	}
	stop := make(chan struct{})
	go func() { writers.Wait(); close(stop) }()
	for reading := true; reading; {
		select {
		case <-stop:
			reading = false
		default:
		}
		c.UpdateSnapshot()
	}
	pods, total := 0, 0
	pods, _ = c.Sizes()
	for _, n := range c.Snapshot().nodes {
		total += len(n.GetPods())
	}
	if pods != total {
		t.Errorf("%d pods are known, %d are on nodes", pods, total)
	}
}

func TestNominator(t *testing.T) {
	pod := func(name string) *fixture.PodBuilder { return fixture.Pod(name) }
	override := func(node string) *fwk.NominatingInfo {
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
	}
	for sentence, c := range map[string]struct {
		history func(n Nominator)
		onN     []string
		total   int
	}{
		"the status nominates": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
		}, []string{"a"}, 1},
		"no status, no nomination": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), nil)
		}, nil, 0},
		"an override beats the status": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("m")), override("n"))
		}, []string{"a"}, 1},
		"an override with no node takes back": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), override(""))
		}, nil, 0},
		"a pod is nominated once, where it was nominated last": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("m"))
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
		}, []string{"a"}, 1},
		"older nominations come first": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("b")), override("n"))
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
		}, []string{"b", "a"}, 2},
		"an update keeps what only memory holds": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a").Label("x", "y")))
		}, []string{"a"}, 1},
		"an update whose status says otherwise wins": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("m"))
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a").NominatedNodeName("n")))
		}, []string{"a"}, 1},
		"an update that clears the status takes back": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
			n.UpdateNominatedPod(logr.Discard(), pod("a").NominatedNodeName("n").Obj(), newPodInfo(pod("a")))
		}, nil, 0},
		"an update of a stranger nominates nobody": {func(n Nominator) {
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a")))
		}, nil, 0},
		"a deletion ends it, and a second one does nothing": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
			n.DeleteNominatedPodIfExists(pod("a").Obj())
			n.DeleteNominatedPodIfExists(pod("a").Obj())
		}, nil, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := newNominator()
			c.history(n)
			var onN []string
			for _, p := range n.NominatedPodsForNode("n") {
				onN = append(onN, p.GetPod().Name)
			}
			if !slices.Equal(onN, c.onN) || n.Nominations() != c.total {
				t.Errorf("on n %v of %d, want %v of %d", onN, n.Nominations(), c.onN, c.total)
			}
			if total := len(n.state.byNode); total > n.Nominations() {
				t.Errorf("%d nodes are remembered for %d nominations", total, n.Nominations())
			}
		})
	}
}
