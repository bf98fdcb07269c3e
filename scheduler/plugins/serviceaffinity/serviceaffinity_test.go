package serviceaffinity

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeHandle is a Handle with nodes, in this order, and services.
type fakeHandle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes     []fwk.NodeInfo
	informers informers.SharedInformerFactory
}

func (t *fakeHandle) SnapshotSharedLister() fwk.SharedLister                 { return t }
func (t *fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return t.informers }
func (t *fakeHandle) NodeInfos() fwk.NodeInfoLister                          { return t }
func (t *fakeHandle) List() ([]fwk.NodeInfo, error)                          { return t.nodes, nil }

func (t *fakeHandle) Get(name string) (fwk.NodeInfo, error) {
	for _, node := range t.nodes {
		if node.Node().Name == name {
			return node, nil
		}
	}
	return nil, fmt.Errorf("no node %s", name)
}

func (t *fakeHandle) addNode(name string, labels map[string]string, pods ...*v1.Pod) {
	object := fixture.Node(name).Obj()
	object.Labels = labels
	node := framework.NewNodeInfo()
	node.SetNode(object)
	for _, pod := range pods {
		pod.Spec.NodeName = name
		node.AddPodInfo(framework.NewNodeInfo(pod).GetPods()[0])
	}
	t.nodes = append(t.nodes, node)
}

func newFakeHandle(t *testing.T, services ...*v1.Service) *fakeHandle {
	t.Helper()
	built := &fakeHandle{informers: informers.NewSharedInformerFactory(nil, 0)}
	for _, service := range services {
		if err := built.informers.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			t.Fatal(err)
		}
	}
	return built
}

func newPlugin(t *testing.T, handle *fakeHandle, args *ServiceAffinityArgs) *Plugin {
	t.Helper()
	built, err := New(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	return built.(*Plugin)
}

func webPod(name string) *v1.Pod { return fixture.Pod(name).Label("app", "web").Obj() }

func TestFilter(t *testing.T) {
	zone := &ServiceAffinityArgs{AffinityLabels: []string{"zone", "rack"}}
	for name, c := range map[string]struct {
		args         *ServiceAffinityArgs
		services     []*v1.Service
		placed       *v1.Pod
		nodeSelector map[string]string
		fits         []string
	}{
		"the first pod of a service fits on any node":     {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, fits: []string{"a1", "a2", "b1"}},
		"the next pod fits where the labels are the same": {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), fits: []string{"a1"}},
		"the pod's nodeSelector takes precedence": {
			args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), nodeSelector: map[string]string{"rack": "2"}, fits: []string{"a2"},
		},
		"without a service other pods do not matter":       {args: zone, placed: webPod("first"), fits: []string{"a1", "a2", "b1"}},
		"pods with other labels do not matter":             {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: fixture.Pod("db").Label("app", "db").Obj(), fits: []string{"a1", "a2", "b1"}},
		"nor do pods of another namespace":                 {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: inOtherNamespace(webPod("first")), fits: []string{"a1", "a2", "b1"}},
		"without labels any node fits":                     {args: &ServiceAffinityArgs{}, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), fits: []string{"a1", "a2", "b1"}},
		"the pod's nodeSelector applies without a service": {args: zone, nodeSelector: map[string]string{"zone": "b"}, fits: []string{"b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(t, c.services...)
			var existing []*v1.Pod
			if c.placed != nil {
				existing = append(existing, c.placed)
			}
			handle.addNode("a1", map[string]string{"zone": "a", "rack": "1"}, existing...)
			handle.addNode("a2", map[string]string{"zone": "a", "rack": "2"})
			handle.addNode("b1", map[string]string{"zone": "b", "rack": "1"})
			pod := webPod("next")
			pod.Spec.NodeSelector = c.nodeSelector
			if diff := cmp.Diff(c.fits, feasibleNodes(t, newPlugin(t, handle, c.args), handle, pod)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADeletedNodeWakesThePodsThatFollowedItsPod(t *testing.T) {
	handle := newFakeHandle(t, fixture.Service("web", "app", "web"))
	handle.addNode("b1", map[string]string{"zone": "b"})
	handle.addNode("a1", map[string]string{"zone": "a"}, webPod("first"))
	p := newPlugin(t, handle, &ServiceAffinityArgs{AffinityLabels: []string{"zone"}})
	before := feasibleNodes(t, p, handle, webPod("next"))
	handle.nodes = handle.nodes[:1]
	after := feasibleNodes(t, p, handle, webPod("next"))
	if diff := cmp.Diff([][]string{{"a1"}, {"b1"}}, [][]string{before, after}); diff != "" {
		t.Errorf("nodes before and after a1 is deleted (-want +got):\n%s", diff)
	}
	events, err := p.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(events, func(e fwk.ClusterEventWithHint) bool {
		return e.Event.Resource == fwk.Node && e.Event.ActionType&fwk.Delete != 0 && e.QueueingHintFn == nil
	}) {
		t.Error("the deletion of a node is no event")
	}
}

func inOtherNamespace(pod *v1.Pod) *v1.Pod {
	pod.Namespace = "elsewhere"
	return pod
}

// feasibleNodes returns the names of the nodes that Filter accepts.
func feasibleNodes(t *testing.T, p *Plugin, handle *fakeHandle, pod *v1.Pod) []string {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := p.PreFilter(t.Context(), state, pod, handle.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	var names []string
	for _, node := range handle.nodes {
		switch status := p.Filter(t.Context(), state, pod, node); {
		case status.IsSuccess():
			names = append(names, node.Node().Name)
		case status.Code() != fwk.Unschedulable || status.Message() != reasonNotMatched:
			t.Errorf("%s: %v", node.Node().Name, status)
		}
	}
	return names
}

// Preemption removes pods from a node and adds them back.
func TestRemovePodAndAddPod(t *testing.T) {
	handle := newFakeHandle(t, fixture.Service("web", "app", "web"))
	first := webPod("first")
	handle.addNode("a", map[string]string{"zone": "a"}, first)
	handle.addNode("b", map[string]string{"zone": "b"})
	p := newPlugin(t, handle, &ServiceAffinityArgs{AffinityLabels: []string{"zone"}})
	state, pod := framework.NewCycleState(), webPod("next")
	if _, status := p.PreFilter(t.Context(), state, pod, handle.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	fits := func(state fwk.CycleState) bool { return p.Filter(t.Context(), state, pod, handle.nodes[1]).IsSuccess() }
	other, info := state.Clone(), handle.nodes[0].GetPods()[0]
	if status := p.RemovePod(t.Context(), other, pod, info, handle.nodes[0]); !status.IsSuccess() || !fits(other) {
		t.Errorf("%v, and the node of another zone is rejected although the pod was removed", status)
	}
	if fits(state) {
		t.Error("a change of the copy changed the original")
	}
	if status := p.AddPod(t.Context(), other, pod, info, handle.nodes[0]); !status.IsSuccess() || fits(other) {
		t.Errorf("%v, and the node of another zone is accepted although the pod was added back", status)
	}
}

// A nominated pod is added to its node before that node is evaluated. Its spec names no
// node.
func TestFilterFollowsAPodThatIsNominated(t *testing.T) {
	for name, c := range map[string]struct {
		placed *v1.Pod
		want   map[string]bool
	}{
		"the first pod of the service is nominated for the node": {want: map[string]bool{"a1": true, "b1": true}},
		"another pod of the service has a node":                  {placed: webPod("first"), want: map[string]bool{"a1": true, "b1": false}},
	} {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(t, fixture.Service("web", "app", "web"))
			var existing []*v1.Pod
			if c.placed != nil {
				existing = append(existing, c.placed)
			}
			handle.addNode("a1", map[string]string{"zone": "a"}, existing...)
			handle.addNode("b1", map[string]string{"zone": "b"})
			p := newPlugin(t, handle, &ServiceAffinityArgs{AffinityLabels: []string{"zone"}})
			state, pod := framework.NewCycleState(), webPod("next")
			if _, status := p.PreFilter(t.Context(), state, pod, handle.nodes); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]bool{}
			for _, node := range handle.nodes {
				nominated := framework.NewNodeInfo(webPod("nominated")).GetPods()[0]
				on, state := node.Snapshot(), state.Clone()
				on.AddPodInfo(nominated)
				if status := p.AddPod(t.Context(), state, pod, nominated, on); !status.IsSuccess() {
					t.Fatal(status)
				}
				status := p.Filter(t.Context(), state, pod, on)
				if !status.IsSuccess() && status.Code() != fwk.Unschedulable {
					t.Errorf("%s: %v, want Success or Unschedulable", node.Node().Name, status)
				}
				got[node.Node().Name] = status.IsSuccess()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that fit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore(t *testing.T) {
	terminating := webPod("going")
	terminating.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		labels   []string
		services []*v1.Service
		want     map[string]int64
	}{
		// Of three pods two are in zone a, one in b.
		"nodes with fewer pods of the service score higher": {
			labels: []string{"zone"}, services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 33, "a2": 33, "b1": 66, "c0": 0},
		},
		"two labels count half each": {
			labels: []string{"zone", "rack"}, services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 16, "a2": 66, "b1": 33, "c0": 50},
		},
		"without a service all nodes with the label score the same": {labels: []string{"zone"}, want: map[string]int64{"a1": 100, "a2": 100, "b1": 100, "c0": 0}},
		"without labels all nodes score 0":                          {services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 0, "a2": 0, "b1": 0, "c0": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(t, c.services...)
			handle.addNode("a1", map[string]string{"zone": "a", "rack": "1"}, webPod("one"), webPod("two"), fixture.Pod("db").Label("app", "db").Obj(), terminating)
			handle.addNode("a2", map[string]string{"zone": "a", "rack": "2"}, inOtherNamespace(webPod("far")))
			handle.addNode("b1", map[string]string{"zone": "b", "rack": "1"}, webPod("three"))
			handle.addNode("c0", map[string]string{"rack": "3"})
			p := newPlugin(t, handle, &ServiceAffinityArgs{AntiAffinityLabelsPreference: c.labels})
			var scores fwk.NodeScoreList
			for _, node := range handle.nodes {
				count, status := p.Score(t.Context(), framework.NewCycleState(), webPod("next"), node)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: count})
			}
			if status := p.NormalizeScore(t.Context(), nil, nil, scores); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]int64{}
			for _, s := range scores {
				got[s.Name] = s.Score
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateNamesTheLabel(t *testing.T) {
	errs := Validate(&ServiceAffinityArgs{AffinityLabels: []string{"zone", "a b"}}, field.NewPath("args"))
	if len(errs) != 1 || errs[0].Field != "args.affinityLabels[1]" {
		t.Errorf("errors %v, want one about args.affinityLabels[1]", errs)
	}
}
