package imagelocality

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeHandle is a Handle that knows the number of nodes and nothing else.
type fakeHandle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes int
}

func (c fakeHandle) SnapshotSharedLister() fwk.SharedLister { return c }
func (c fakeHandle) NodeInfos() fwk.NodeInfoLister          { return c }
func (c fakeHandle) List() ([]fwk.NodeInfo, error)          { return make([]fwk.NodeInfo, c.nodes), nil }

func TestScore(t *testing.T) {
	const mib = 1 << 20
	on := func(nodes int, sizeMiB int64) *fwk.ImageStateSummary {
		return &fwk.ImageStateSummary{Size: sizeMiB * mib, NumNodes: nodes}
	}
	withVolume := func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1"}}}}
	}
	for name, c := range map[string]struct {
		pod    *fixture.PodBuilder
		images map[string]*fwk.ImageStateSummary
		want   int64
	}{
		"a node without images scores 0": {pod: fixture.Pod("a").Bare().Image("web:1")},
		"another image does not count":   {pod: fixture.Pod("a").Bare().Image("web:1"), images: map[string]*fwk.ImageStateSummary{"web:2": on(4, 900)}},
		"an image on every node counts in full": {
			pod: fixture.Pod("a").Bare().Image("web:1"), images: map[string]*fwk.ImageStateSummary{"web:1": on(4, 500)}, want: 48,
		},
		"an image on half of the nodes counts half": {
			pod: fixture.Pod("a").Bare().Image("web:1"), images: map[string]*fwk.ImageStateSummary{"web:1": on(2, 500)}, want: 23,
		},
		"a small image does not count": {
			pod: fixture.Pod("a").Bare().Image("web:1"), images: map[string]*fwk.ImageStateSummary{"web:1": on(4, 23)}, want: 0,
		},
		"the score is limited to 100": {
			pod: fixture.Pod("a").Bare().Image("web:1"), images: map[string]*fwk.ImageStateSummary{"web:1": on(4, 5000)}, want: 100,
		},
		"each image of the pod raises the upper threshold": {
			pod: fixture.Pod("a").Bare().Image("web:1").InitImage("setup:1"), images: map[string]*fwk.ImageStateSummary{"web:1": on(4, 500)}, want: 24,
		},
		"init containers and image volumes count": {
			pod:    fixture.Pod("a").Bare().Image("web:1").InitImage("setup:1").Mutate(withVolume),
			images: map[string]*fwk.ImageStateSummary{"setup:1": on(4, 500), "data:1": on(4, 700)}, want: 39,
		},
		"an image without a tag has the tag latest": {
			pod: fixture.Pod("a").Bare().Image("reg:5000/web"), images: map[string]*fwk.ImageStateSummary{"reg:5000/web:latest": on(4, 5000)}, want: 100,
		},
		"a pod without containers scores 0": {pod: fixture.Pod("a").Bare()},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := New(t.Context(), nil, fakeHandle{nodes: 4})
			if err != nil {
				t.Fatal(err)
			}
			node := framework.NewNodeInfo()
			node.ImageStates = c.images
			got, status := plugin.(*Plugin).Score(t.Context(), framework.NewCycleState(), c.pod.Obj(), node)
			if got != c.want || !status.IsSuccess() {
				t.Errorf("score %d, status %v, want %d", got, status, c.want)
			}
		})
	}
}

func TestSignPodNamesEachImageOnce(t *testing.T) {
	pod := fixture.Pod("a").Bare().Image("web").InitImage("web:latest").Image("a:1").Obj()
	got, status := (&Plugin{}).SignPod(t.Context(), pod)
	want := []fwk.SignFragment{{Key: fwk.ImageNamesSignerName, Value: []string{"a:1", "web:latest"}}}
	if diff := cmp.Diff(want, got); diff != "" || !status.IsSuccess() {
		t.Errorf("status %v, fragments (-want +got):\n%s", status, diff)
	}
}
