package eventhandlers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

const storageGroup = "storage.k8s.io/v1"

// clientServing returns a client of an API server that serves these resources, by group
// and version.
func clientServing(kinds map[string]string, objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	discovery := client.Discovery().(*fakediscovery.FakeDiscovery)
	for version, plurals := range kinds {
		list := &metav1.APIResourceList{GroupVersion: version}
		for _, plural := range strings.Fields(plurals) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural})
		}
		discovery.Resources = append(discovery.Resources, list)
	}
	return client
}

func kindsOf(objects []runtime.Object) (kinds []string) {
	for _, object := range objects {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."))
	}
	return kinds
}

func TestStorageKindsThatAnOlderAPIServerDoesNotServe(t *testing.T) {
	const core, storage = "PersistentVolume PersistentVolumeClaim", "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment"
	for name, c := range map[string]struct {
		serves          map[string]string
		served, missing string
	}{
		"all kinds": {
			serves: map[string]string{"v1": "pods persistentvolumes persistentvolumeclaims", storageGroup: "storageclasses csinodes csidrivers csistoragecapacities volumeattachments"},
			served: core + " " + storage,
		},
		"an older API server": {
			serves:  map[string]string{"v1": "pods persistentvolumes persistentvolumeclaims", storageGroup: "storageclasses volumeattachments"},
			served:  core + " StorageClass VolumeAttachment",
			missing: "CSINode CSIDriver CSIStorageCapacity",
		},
		"the group is not served": {
			serves: map[string]string{"v1": "persistentvolumes persistentvolumeclaims"},
			served: core, missing: storage,
		},
		"no kind": {serves: map[string]string{"v1": "pods"}, missing: core + " " + storage},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewStorage(clientServing(c.serves).Discovery())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(c.served), kindsOf(s.Kinds()), cmp.Transformer("list", joined)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Fields(c.missing), kindsOf(s.Missing()), cmp.Transformer("list", joined)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
	if all := AllStorage(); len(all.Missing()) > 0 || len(all.Kinds()) != 7 {
		t.Errorf("of all kinds %d are served and %q are missing", len(all.Kinds()), kindsOf(all.Missing()))
	}
	if none := (Storage{}); len(none.Kinds()) > 0 || len(none.Missing()) != 7 {
		t.Errorf("of no kinds %q are served", kindsOf(none.Kinds()))
	}
}

// joined makes no difference between no list and an empty one.
func joined(kinds []string) string { return strings.Join(kinds, " ") }

// An API server that does not answer is not one that serves nothing.
func TestNewStorageReturnsTheErrorOfDiscovery(t *testing.T) {
	client := clientServing(nil)
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the server is busy")
	})
	if s, err := NewStorage(client.Discovery()); err == nil || err.Error() != "the server is busy" || len(s.Kinds()) > 0 {
		t.Errorf("%q, %v", kindsOf(s.Kinds()), err)
	}
}

func TestOnlyServedStorageKindsAreWatched(t *testing.T) {
	for name, c := range map[string]struct {
		resource fwk.EventResource
		object   runtime.Object
		events   []string
	}{
		"a served PersistentVolumeClaim":   {fwk.PersistentVolumeClaim, fixture.Claim("default/data", "any").Obj(), []string{"added"}},
		"a served StorageClass":            {fwk.StorageClass, fixture.StorageClass("any", ""), []string{"added"}},
		"a CSIDriver, which is not served": {fwk.CSIDriver, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientServing(map[string]string{"v1": "persistentvolumes persistentvolumeclaims", storageGroup: "storageclasses"}, c.object)
			storage, err := NewStorage(client.Discovery())
			if err != nil {
				t.Fatal(err)
			}
			q, recorder := queueWithHint(t, c.resource)
			startHandlers(t, client, q, storage)
			if diff := cmp.Diff(c.events, recorder.recorded(), cmp.Transformer("list", joined)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, action := range client.Actions() {
				switch resource := action.GetResource().Resource; resource {
				case "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments":
					t.Errorf("%s %s, which are not served", action.GetVerb(), resource)
				}
			}
		})
	}
}
