package nodepreferavoidpods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestScore(t *testing.T) {
	const against = `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"ReplicaSet","uid":"other"}}},{"podSignature":{}},` +
		`{"podSignature":{"podController":{"kind":"ReplicaSet","uid":"web-1"}}}]}`
	for name, c := range map[string]struct {
		kind       string
		uid        types.UID
		controls   bool
		annotation string
		want       int64
	}{
		"a node that names the controller is avoided":        {kind: "ReplicaSet", uid: "web-1", controls: true, annotation: against, want: 0},
		"a node that names another controller is not":        {kind: "ReplicaSet", uid: "web-2", controls: true, annotation: against, want: 100},
		"nor is one that names another kind with the UID":    {kind: "ReplicationController", uid: "web-1", controls: true, annotation: against, want: 100},
		"nor one that names a kind which cannot be named":    {kind: "StatefulSet", uid: "web-1", controls: true, annotation: `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"StatefulSet","uid":"web-1"}}}]}`, want: 100},
		"an owner that is not the controller is not avoided": {kind: "ReplicaSet", uid: "web-1", annotation: against, want: 100},
		"a pod without a controller is not avoided":          {annotation: against, want: 100},
		"a node without the annotation avoids no pods":       {kind: "ReplicaSet", uid: "web-1", controls: true, want: 100},
		"nor does one whose annotation does not parse":       {kind: "ReplicaSet", uid: "web-1", controls: true, annotation: "ReplicaSet web", want: 100},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("web").Obj()
			if c.kind != "" {
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: "web", UID: c.uid, Controller: &c.controls}}
			}
			object := fixture.Node("n").Obj()
			if c.annotation != "" {
				object.Annotations = map[string]string{v1.PreferAvoidPodsAnnotationKey: c.annotation}
			}
			node := framework.NewNodeInfo()
			node.SetNode(object)
			if got, status := (&Plugin{}).Score(t.Context(), framework.NewCycleState(), pod, node); got != c.want || !status.IsSuccess() {
				t.Errorf("score %d, %v, want %d", got, status, c.want)
			}
		})
	}
}
