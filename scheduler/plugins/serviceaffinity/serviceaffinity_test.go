package serviceaffinity

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// town is a handle with nodes, in their order, and services.
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
	made := &fakeHandle{informers: informers.NewSharedInformerFactory(nil, 0)}
	for _, service := range services {
		if err := made.informers.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func newPlugin(t *testing.T, in *fakeHandle, args *ServiceAffinityArgs) *Plugin {
	t.Helper()
	made, err := New(t.Context(), args, in)
	if err != nil {
		t.Fatal(err)
	}
	return made.(*Plugin)
}

func webPod(name string) *v1.Pod { return fixture.Pod(name).Label("app", "web").Obj() }

func TestFilter(t *testing.T) {
	zone := &ServiceAffinityArgs{AffinityLabels: []string{"zone", "rack"}}
	for sentence, c := range map[string]struct {
		args     *ServiceAffinityArgs
		services []*v1.Service
		placed   *v1.Pod
		wants    map[string]string
		fits     []string
	}{
		"the first pod of a service goes anywhere": {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, fits: []string{"a1", "a2", "b1"}},
		"the next one follows it":                  {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), fits: []string{"a1"}},
		"what the pod asks for itself is asked for instead": {
			args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), wants: map[string]string{"rack": "2"}, fits: []string{"a2"},
		},
		"without a service nobody is followed":     {args: zone, placed: webPod("first"), fits: []string{"a1", "a2", "b1"}},
		"another's pods are not followed":          {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: fixture.Pod("db").Label("app", "db").Obj(), fits: []string{"a1", "a2", "b1"}},
		"nor are those of another namespace":       {args: zone, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: inOtherNamespace(webPod("first")), fits: []string{"a1", "a2", "b1"}},
		"without labels nothing is asked":          {args: &ServiceAffinityArgs{}, services: []*v1.Service{fixture.Service("web", "app", "web")}, placed: webPod("first"), fits: []string{"a1", "a2", "b1"}},
		"what the pod asks for, it asks for alone": {args: zone, wants: map[string]string{"zone": "b"}, fits: []string{"b1"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			in := newFakeHandle(t, c.services...)
			var there []*v1.Pod
			if c.placed != nil {
				there = append(there, c.placed)
			}
			in.addNode("a1", map[string]string{"zone": "a", "rack": "1"}, there...)
			in.addNode("a2", map[string]string{"zone": "a", "rack": "2"})
			in.addNode("b1", map[string]string{"zone": "b", "rack": "1"})
			pod := webPod("next")
			pod.Spec.NodeSelector = c.wants
			if diff := cmp.Diff(c.fits, feasibleNodes(t, newPlugin(t, in, c.args), in, pod)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func inOtherNamespace(pod *v1.Pod) *v1.Pod {
	pod.Namespace = "elsewhere"
	return pod
}

// fits are the nodes that the plugin lets the pod have.
func feasibleNodes(t *testing.T, p *Plugin, in *fakeHandle, pod *v1.Pod) []string {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := p.PreFilter(t.Context(), state, pod, in.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	var names []string
	for _, node := range in.nodes {
		switch status := p.Filter(t.Context(), state, pod, node); {
		case status.IsSuccess():
			names = append(names, node.Node().Name)
		case status.Code() != fwk.Unschedulable || status.Message() != reasonNotMatched:
			t.Errorf("%s: %v", node.Node().Name, status)
		}
	}
	return names
}

// Preemption asks what would be without a pod, and with it again.
func TestRemovePodAndAddPod(t *testing.T) {
	in := newFakeHandle(t, fixture.Service("web", "app", "web"))
	first := webPod("first")
	in.addNode("a", map[string]string{"zone": "a"}, first)
	in.addNode("b", map[string]string{"zone": "b"})
	p := newPlugin(t, in, &ServiceAffinityArgs{AffinityLabels: []string{"zone"}})
	state, pod := framework.NewCycleState(), webPod("next")
	if _, status := p.PreFilter(t.Context(), state, pod, in.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	fits := func(state fwk.CycleState) bool { return p.Filter(t.Context(), state, pod, in.nodes[1]).IsSuccess() }
	other, info := state.Clone(), in.nodes[0].GetPods()[0]
	if status := p.RemovePod(t.Context(), other, pod, info, in.nodes[0]); !status.IsSuccess() || !fits(other) {
		t.Errorf("%v, and the node of another zone is refused although the pod there is gone", status)
	}
	if fits(state) {
		t.Error("the copy's change shows in the original")
	}
	if status := p.AddPod(t.Context(), other, pod, info, in.nodes[0]); !status.IsSuccess() || fits(other) {
		t.Errorf("%v, and the node of another zone is allowed although the pod is there again", status)
	}
}

// A nominated pod is put on its node before that node is asked about. Its spec
// names no node.
func TestFilterFollowsAPodThatIsNominated(t *testing.T) {
	for sentence, c := range map[string]struct {
		placed *v1.Pod
		want   map[string]bool
	}{
		"the first pod of the service is nominated for the node": {want: map[string]bool{"a1": true, "b1": true}},
		"another pod of the service has a node":                  {placed: webPod("first"), want: map[string]bool{"a1": true, "b1": false}},
	} {
		t.Run(sentence, func(t *testing.T) {
			in := newFakeHandle(t, fixture.Service("web", "app", "web"))
			var there []*v1.Pod
			if c.placed != nil {
				there = append(there, c.placed)
			}
			in.addNode("a1", map[string]string{"zone": "a"}, there...)
			in.addNode("b1", map[string]string{"zone": "b"})
			p := newPlugin(t, in, &ServiceAffinityArgs{AffinityLabels: []string{"zone"}})
			state, pod := framework.NewCycleState(), webPod("next")
			if _, status := p.PreFilter(t.Context(), state, pod, in.nodes); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]bool{}
			for _, node := range in.nodes {
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
	going := webPod("going")
	going.DeletionTimestamp = &metav1.Time{}
	for sentence, c := range map[string]struct {
		labels   []string
		services []*v1.Service
		want     map[string]int64
	}{
		// Of three pods two are in zone a, one in b.
		"nodes are better where fewer of the service are": {
			labels: []string{"zone"}, services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 33, "a2": 33, "b1": 66, "c0": 0},
		},
		"two labels have half a say each": {
			labels: []string{"zone", "rack"}, services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 16, "a2": 66, "b1": 33, "c0": 50},
		},
		"without a service all nodes with the label are alike": {labels: []string{"zone"}, want: map[string]int64{"a1": 100, "a2": 100, "b1": 100, "c0": 0}},
		"without labels nothing is scored":                     {services: []*v1.Service{fixture.Service("web", "app", "web")}, want: map[string]int64{"a1": 0, "a2": 0, "b1": 0, "c0": 0}},
	} {
		t.Run(sentence, func(t *testing.T) {
			in := newFakeHandle(t, c.services...)
			in.addNode("a1", map[string]string{"zone": "a", "rack": "1"}, webPod("one"), webPod("two"), fixture.Pod("db").Label("app", "db").Obj(), going)
			in.addNode("a2", map[string]string{"zone": "a", "rack": "2"}, inOtherNamespace(webPod("far")))
			in.addNode("b1", map[string]string{"zone": "b", "rack": "1"}, webPod("three"))
			in.addNode("c0", map[string]string{"rack": "3"})
			p := newPlugin(t, in, &ServiceAffinityArgs{AntiAffinityLabelsPreference: c.labels})
			var scores fwk.NodeScoreList
			for _, node := range in.nodes {
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
