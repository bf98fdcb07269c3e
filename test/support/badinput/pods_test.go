package badinput

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
)

// badPod returns a pod with one invalid field.
func badPod(p Pod) *v1.Pod {
	pod := fixture.Pod("bad").Requests("cpu", "100m").Obj()
	p.Bad(pod)
	return pod
}

// goodPod returns a valid pod whose affinity and spread terms concern all other pods.
func goodPod(name string) *v1.Pod {
	return fixture.Pod(name).Label("app", "web").Requests("cpu", "100m").
		Spread(fixture.SoftSpreadConstraint(v1.LabelHostname, "app", "web")).
		PreferPodAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")).
		RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")).HostPort("", "", 80).Obj()
}

// cluster is Berth with some nodes.
type cluster struct {
	t     *testing.T
	berth *run.Berth
	world *run.Cluster
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	berth, err := run.NewBerth(t.Context(), run.Config{Profile: run.DefaultProfile(), Explain: true, Preempt: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, berth: berth, world: run.NewCluster(berth)}
	for i := range 4 {
		c.do(log.Apply, fixture.Node(fmt.Sprint("n", i)).Zone(fmt.Sprint(i%2)).Capacity("cpu", "4").Obj())
	}
	c.do(log.Apply, fixture.Pod("old").Label("app", "web").On("n0").Obj())
	return c
}

// do runs an op. An attempt may fail, but not with a panic.
func (c *cluster) do(kind log.Kind, object log.Object) *run.Outcome {
	c.t.Helper()
	outcome, err := c.world.Do(log.Op{Kind: kind, Object: object})
	if err != nil {
		c.t.Fatal(err)
	}
	var panicked *framework.PanicError
	if outcome != nil && errors.As(outcome.Err, &panicked) {
		c.t.Errorf("%v\n%s", panicked, panicked.Stack)
	}
	return outcome
}

func TestABadPodIsTriedAndTheOthersGoOn(t *testing.T) {
	for _, p := range Pods() {
		t.Run(p.Description, func(t *testing.T) {
			c := newCluster(t)
			c.do(log.Schedule, badPod(p))
			if good := c.do(log.Schedule, goodPod("good")); good.Node == "" {
				t.Errorf("a good pod fits on no node: %v", good.Err)
			}
		})
	}
}

func TestABadPodThatIsOnANodeIsCounted(t *testing.T) {
	for _, p := range Pods() {
		t.Run(p.Description, func(t *testing.T) {
			c := newCluster(t)
			pod := badPod(p)
			pod.Spec.NodeName = "n1"
			c.do(log.Apply, pod)
			if good := c.do(log.Schedule, goodPod("good")); good.Node == "" {
				t.Errorf("a good pod fits on no node: %v", good.Err)
			}
			c.do(log.Delete, pod)
			if good := c.do(log.Schedule, goodPod("better")); good.Node == "" {
				t.Errorf("a good pod fits on no node after the bad one was deleted: %v", good.Err)
			}
			for _, node := range c.berth.Nodes() {
				if node.Node().Name == "n1" && len(node.GetPods()) > 1 {
					t.Errorf("%d pods on n1, want at most the good ones", len(node.GetPods()))
				}
			}
		})
	}
}

func TestABadPodThatIsNominatedIsCounted(t *testing.T) {
	for _, p := range Pods() {
		t.Run(p.Description, func(t *testing.T) {
			c := newCluster(t)
			pod := badPod(p)
			pod.Status.NominatedNodeName = "n1"
			c.do(log.Apply, pod)
			if good := c.do(log.Schedule, goodPod("good")); good.Node == "" {
				t.Errorf("a good pod fits on no node: %v", good.Err)
			}
			c.do(log.Schedule, pod)
		})
	}
}

// Informers call queueing hints, where only the framework recovers a panic.
func TestHintsSurviveBadPods(t *testing.T) {
	c := newCluster(t)
	for _, name := range plugins.InTree().Names() {
		if !upstreamconfig.IsUpstreamPlugin(name) {
			continue // other plugins have no hints
		}
		plugin := must(c.berth.Plugin(t.Context(), name))(t)
		extension, ok := plugin.(fwk.EnqueueExtensions)
		if !ok {
			continue
		}
		for _, event := range must(extension.EventsToRegister(t.Context()))(t) {
			if event.QueueingHintFn == nil {
				continue
			}
			for _, p := range Pods() {
				t.Run(name+"/"+event.Event.Label()+"/"+p.Description, func(t *testing.T) {
					for _, change := range hintArguments(event.Event, p) {
						// An error means Queue.
						_, _ = event.QueueingHintFn(klog.Background(), badPod(p), change[0], change[1])
						_, _ = event.QueueingHintFn(klog.Background(), goodPod("good"), change[0], change[1])
					}
				})
			}
		}
	}
}

// hintArguments returns the old and new objects that a hint for event may get; pods among
// them are bad.
func hintArguments(event fwk.ClusterEvent, p Pod) [][2]any {
	n0, n1 := fixture.Node("n0").Obj(), fixture.Node("n0").Label("a", "b").Zone("z").Capacity("cpu", "1").Obj()
	placed := badPod(p)
	placed.Spec.NodeName = "n1"
	before, after := any(n0), any(n1)
	switch event.Resource {
	case fwk.Node:
	case fwk.AssignedPod, framework.TerminatingPod:
		before, after = placed, placed
	case fwk.TargetPod:
		return [][2]any{{badPod(p), badPod(p)}, {badPod(p), goodPod("bad")}, {goodPod("bad"), badPod(p)}}
	default:
		return nil
	}
	var list [][2]any
	if event.ActionType&fwk.Add != 0 {
		list = append(list, [2]any{nil, after})
	}
	if event.ActionType&fwk.Delete != 0 {
		list = append(list, [2]any{before, nil})
	}
	if event.ActionType&fwk.Update != 0 {
		list = append(list, [2]any{before, after})
	}
	return list
}

// must returns value and fails the test on an error.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// A node reports its resources itself. Bad ones must not keep good pods off other nodes.
func TestABadNodeDoesNotAffectGoodPods(t *testing.T) {
	for name, offers := range map[string][]string{
		"a node without resources":              {"pods", "10"},
		"a node with negative resources":        {"pods", "10", "cpu", "-4", "memory", "-1Gi", "ephemeral-storage", "-1"},
		"a node with a negative number of pods": {"pods", "-1"},
		"a node with resources that overflow":   {"pods", "10", "cpu", "9223372036854775807", "memory", "9e40"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.do(log.Apply, fixture.Node("bad").Capacity(offers...).Obj())
			for i := range 3 {
				if good := c.do(log.Schedule, goodPod(fmt.Sprint("good", i))); good.Node == "" {
					t.Errorf("a good pod fits on no node: %v", good.Err)
				}
			}
		})
	}
}
