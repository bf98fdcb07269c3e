package eventhandlers

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berthdev/berth/test/support/fixture"
)

// client-go may deliver the initial list in the order of a map.
func TestInitialNodesAreAddedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		initial := &v1.NodeList{}
		for _, name := range []string{"e", "c", "a", "g", "d", "b", "f"} {
			initial.Items = append(initial.Items, *fixture.Node(name).Obj())
		}
		w, client := newTestEnv(t), fake.NewClientset()
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, initial, nil })
		factory := informers.NewSharedInformerFactory(client, 0)
		synced, err := w.Register(factory)
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(t.Context().Done())
		if !synced(t.Context()) {
			t.Fatal("the handlers are not synced")
		}
		order := func() []string { w.cache.UpdateSnapshot(); return w.cache.NodeNames() }
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "g"}, order()); diff != "" {
			t.Errorf("the order of the nodes (-want +got):\n%s", diff)
		}

		for _, name := range []string{"z", "aa"} { // these are added in this order
			if _, err := client.CoreV1().Nodes().Create(t.Context(), fixture.Node(name).Obj(), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "g", "z", "aa"}, order()); diff != "" {
			t.Errorf("the order of the nodes (-want +got):\n%s", diff)
		}
	})
}

func TestANodeUpdateIsHandledAfterTheInitialNodes(t *testing.T) {
	for name, change := range map[string]func(w *testEnv){
		"a node of the initial list is updated": func(w *testEnv) {
			w.ensureInitialNodes()
			w.nodeUpdated(fixture.Node("b").Obj(), fixture.Node("b").Zone("z").Obj())
		},
		"a node of the initial list is deleted": func(w *testEnv) { w.ensureInitialNodes(); w.nodeDeleted(fixture.Node("b").Obj()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			for _, name := range []string{"b", "a"} {
				if !w.initialNodes.collect(fixture.Node(name).Obj()) {
					t.Fatal("the node was not collected")
				}
			}
			change(w)
			if w.initialNodes.collect(&v1.Node{}) {
				t.Error("a node was collected after the initial nodes were added")
			}
			w.cache.UpdateSnapshot()
			if got := w.cache.NodeNames(); got[0] != "a" || slices.Contains(got[1:], "a") {
				t.Errorf("the order of the nodes is %v", got)
			}
		})
	}
}
