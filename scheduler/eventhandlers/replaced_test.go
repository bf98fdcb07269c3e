package eventhandlers

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// After a lost watch, an informer delivers the deletion of an object and the creation of another one
// of its name as one update. Hints of updates compare what an API server lets change: that of
// VolumeBinding the topologies of a class, not its provisioner. VolumeRestrictions registers for no
// updates of claims at all.
func TestAnObjectThatTakesThePlaceOfAnotherIsADeletionAndAnAddition(t *testing.T) {
	storage := func(plural string) schema.GroupVersionResource {
		return storagev1.SchemeGroupVersion.WithResource(plural)
	}
	core := func(plural string) schema.GroupVersionResource { return v1.SchemeGroupVersion.WithResource(plural) }
	named := metav1.ObjectMeta{Name: "a"}
	for name, c := range map[string]struct {
		event  fwk.EventResource
		plural schema.GroupVersionResource
		object runtime.Object
	}{
		"a PersistentVolumeClaim": {fwk.PersistentVolumeClaim, core("persistentvolumeclaims"), fixture.Claim("default/data", "any").Obj()},
		"a StorageClass":          {fwk.StorageClass, storage("storageclasses"), fixture.StorageClass("any", "")},
		"a CSINode":               {fwk.CSINode, storage("csinodes"), &storagev1.CSINode{ObjectMeta: named}},
		"a VolumeAttachment":      {fwk.VolumeAttachment, storage("volumeattachments"), &storagev1.VolumeAttachment{ObjectMeta: named}},
		"a Namespace":             {framework.Namespace, core("namespaces"), fixture.Namespace("shop").Obj()},
		"a Service":               {framework.Service, core("services"), fixture.Service("web", "app", "web")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(c.object)
				q, recorder := queueWithHint(t, c.event)
				startHandlers(t, client, q, AllStorage())
				synctest.Wait() // until each informer has a watch
				another := c.object.DeepCopyObject()
				another.(metav1.Object).SetUID("another")
				if err := client.Tracker().Update(c.plural, another, another.(metav1.Object).GetNamespace()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff([]string{"added", "deleted", "added"}, recorder.recorded()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
