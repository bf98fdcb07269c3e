package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestAnAssignedPodIsNotNominated(t *testing.T) {
	pending := fixture.Pod("shop/web").Requests("cpu", "1").NominatedNodeName("n1")
	info, err := framework.NewPodInfo(pending.Obj())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Cache) error{
		"an assumed pod":                   func(c *Cache) error { return c.AssumePod(info, "n1") },
		"a pod assigned in the API server": func(c *Cache) error { c.SetPod(info.WithNode("n1").GetPod()); return nil },
	}
	for name, place := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			if err := place(c); err != nil {
				t.Fatal(err)
			}
			c.AddNominatedPod(klog.Background(), info, nil)
			c.UpdateNominatedPod(klog.Background(), pending.Obj(), info)
			if n := c.Nominations(); n != 0 {
				t.Errorf("%d nominations, want 0: the pod counts on n1 already", n)
			}
			c.RemovePodByUID(pending.Obj().UID)
			c.AddNominatedPod(klog.Background(), info, nil)
			if n := c.Nominations(); n != 1 {
				t.Errorf("%d nominations once the pod has no node, want 1", n)
			}
		})
	}
}

func TestATerminatingPodIsNotNominated(t *testing.T) {
	pending := fixture.Pod("shop/web").NominatedNodeName("n1")
	before, _ := framework.NewPodInfo(pending.Obj())
	after, _ := framework.NewPodInfo(pending.Terminating().Obj())
	for name, event := range map[string]func(*Cache){
		"when it is added":   func(c *Cache) { c.AddNominatedPod(klog.Background(), after, nil) },
		"when it is updated": func(c *Cache) { c.UpdateNominatedPod(klog.Background(), before.GetPod(), after) },
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			c.AddNominatedPod(klog.Background(), before, nil)
			if n := c.Nominations(); n != 1 {
				t.Fatalf("%d nominations before, want 1", n)
			}
			if event(c); c.Nominations() != 0 {
				t.Error("a terminating pod is nominated")
			}
		})
	}
}

func TestNominator(t *testing.T) {
	pod := func(name string) *fixture.PodBuilder { return fixture.Pod(name) }
	override := func(node string) *fwk.NominatingInfo {
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
	}
	for name, c := range map[string]struct {
		history func(n Nominator)
		onN     []string
		total   int
	}{
		"the pod's status nominates": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
		}, []string{"a"}, 1},
		"a pod without nominatedNodeName is not nominated": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), nil)
		}, nil, 0},
		"an override takes precedence over the status": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("m")), override("n"))
		}, []string{"a"}, 1},
		"an override without a node removes the nomination": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), override(""))
		}, nil, 0},
		"a later nomination replaces the earlier one": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("m"))
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
		}, []string{"a"}, 1},
		"older nominations come first": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("b")), override("n"))
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
		}, []string{"b", "a"}, 2},
		"an update keeps a nomination that was made in memory": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a").Label("x", "y")))
		}, []string{"a"}, 1},
		"an update with another nominatedNodeName replaces the nomination": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("m"))
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a").NominatedNodeName("n")))
		}, []string{"a"}, 1},
		"an update that clears nominatedNodeName removes the nomination": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a").NominatedNodeName("n")), nil)
			n.UpdateNominatedPod(logr.Discard(), pod("a").NominatedNodeName("n").Obj(), newPodInfo(pod("a")))
		}, nil, 0},
		"an update of a pod without nomination nominates nothing": {func(n Nominator) {
			n.UpdateNominatedPod(logr.Discard(), pod("a").Obj(), newPodInfo(pod("a")))
		}, nil, 0},
		"a deletion removes the nomination, and a second one does nothing": {func(n Nominator) {
			n.AddNominatedPod(logr.Discard(), newPodInfo(pod("a")), override("n"))
			n.DeleteNominatedPodIfExists(pod("a").Obj())
			n.DeleteNominatedPodIfExists(pod("a").Obj())
		}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
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
				t.Errorf("%d nodes in the index for %d nominations", total, n.Nominations())
			}
		})
	}
}

func TestNominationsVersion(t *testing.T) {
	n := newNominator()
	rng := rand.New(rand.NewPCG(1, 0))
	known := map[uint64]string{}
	for range 2000 {
		name := fmt.Sprint("pod-", rng.IntN(4))
		nominated := fixture.Pod(name).NominatedNodeName([]string{"", "n", "m"}[rng.IntN(3)]).Label("at", fmt.Sprint(rng.IntN(100)))
		switch rng.IntN(3) {
		case 0:
			n.AddNominatedPod(logr.Discard(), newPodInfo(nominated), nil)
		case 1:
			n.UpdateNominatedPod(logr.Discard(), fixture.Pod(name).Obj(), newPodInfo(nominated))
		case 2:
			n.DeleteNominatedPodIfExists(nominated.Obj())
		}
		now := ""
		for _, p := range n.NominatedPodsForNode("n") {
			now += fmt.Sprint(" ", p.GetPod().Name, p.GetPod().Labels)
		}
		version := n.NominationsVersion("n")
		if before, ok := known[version]; ok && before != now {
			t.Fatalf("version %d had the pods%s, and has now the pods%s", version, before, now)
		}
		known[version] = now
	}
	if len(known) < 500 {
		t.Errorf("%d versions, want 500 or more", len(known))
	}
}
