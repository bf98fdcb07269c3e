package scheduler

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/plugins/volumebinding"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// storageKinds returns the kinds of storage that the API server serves: those of the objects.
func storageKinds(t *testing.T, cluster *fakecluster.Cluster, objects []runtime.Object) eventhandlers.Storage {
	t.Helper()
	if !slices.ContainsFunc(objects, func(o runtime.Object) bool { _, is := o.(*storagev1.StorageClass); return is }) {
		return eventhandlers.Storage{}
	}
	discovery := cluster.Discovery().(*fakediscovery.FakeDiscovery)
	for version, names := range map[string]string{
		"v1": "persistentvolumes persistentvolumeclaims", "storage.k8s.io/v1": "storageclasses csinodes csidrivers csistoragecapacities volumeattachments",
	} {
		list := &metav1.APIResourceList{GroupVersion: version}
		for _, name := range strings.Fields(names) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		discovery.Resources = append(discovery.Resources, list)
	}
	storage, err := eventhandlers.NewStorage(discovery)
	if err != nil {
		t.Fatal(err)
	}
	return storage
}

// volumeBlueprint returns a profile with VolumeBinding, A and the default binder.
func (env *testEnv) volumeBlueprint(hash string) *compile.Blueprint {
	b := env.blueprintWith(hash, volumebinding.Name)
	b.Queue.FlushAfter = 0
	return b
}

// owner returns a pod that uses the claim of its name.
func owner(name string) *v1.Pod { return fixture.Pod(name).SchedulerName("p").Claim(name).Obj() }

// oneVolume returns one volume and the claims a and b, which both match it.
func oneVolume() []runtime.Object {
	return []runtime.Object{
		node("n1"), podNamespace(), fixture.StorageClass("local", ""), fixture.Volume("v", "local").Obj(),
		fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(),
	}
}

const noVolume = "False Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."

// Assumed volumes belong to the scheduler, not to a generation.
func TestASwapKeepsAssumedVolumes(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.cluster.RunVolumeController()
		env.a.PermitTimeout = time.Hour
		env.a.SetStatus("Permit", probe.Wait)
		env.run(env.volumeBlueprint("old"))
		defer env.startLeading()()
		env.create(owner("a"))
		env.run(env.volumeBlueprint("new"))
		env.create(owner("b"))
		env.want("b, while a waits on Permit under the old generation", env.podScheduled("b"), noVolume)

		env.waitingPods.Get(webPod("a").UID).Allow("A")
		synctest.Wait()
		env.want("a", env.nodeOf("a"), "n1")
		env.want("claim of the volume", env.cluster.BoundVolumes()["v"], "default/a")
	}, oneVolume()...)
}

// The API server sends no event for an assumed volume that is released, since nothing was
// written. Pods that were rejected because of it are requeued all the same.
func TestAReleasedVolumeWakesPodsThatWantIt(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.cluster.RunVolumeController()
		env.a.PermitTimeout = time.Hour
		env.a.SetStatus("Permit", probe.Wait)
		env.run(env.volumeBlueprint("only"))
		defer env.startLeading()()
		env.create(owner("a"))
		env.create(owner("b"))
		env.want("b, while a waits on Permit", env.podScheduled("b"), noVolume)

		env.a.SetStatus("Permit", nil)
		env.cluster.DeletePod(owner("a"))
		synctest.Wait()
		time.Sleep(time.Minute) // b's backoff
		synctest.Wait()
		env.want("b", env.nodeOf("b"), "n1")
		env.want("claim of the volume", env.cluster.BoundVolumes()["v"], "default/b")
	}, oneVolume()...)
}
