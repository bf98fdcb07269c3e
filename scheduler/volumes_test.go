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
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/volumebinding"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// served are the kinds of storage, where objects are of them.
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

// volumeBlueprint runs VolumeBinding, A and the real binder.
func (w *testEnv) volumeBlueprint(hash string) *compile.Blueprint {
	name := volumebinding.Name
	w.options.Registry[name] = framework.Registration{Name: name, New: volumebinding.New, InTree: true}
	b := w.blueprint(hash)
	b.Queue.FlushAfter = 0
	for _, point := range framework.PointsOf((*volumebinding.Plugin)(nil)) {
		b.Chains[point] = append([]framework.Entry{{Name: name, Weight: 1}}, b.Chains[point]...)
	}
	args := &configv1.VolumeBindingArgs{}
	volumebinding.Default(args)
	b.Args = map[string]runtime.Object{name: args}
	return b
}

// owner is a pod that uses the claim of its name.
func owner(name string) *v1.Pod { return fixture.Pod(name).SchedulerName("p").Claim(name).Obj() }

// oneVolume is a cluster with one volume, which the claims a and b are after.
func oneVolume() []runtime.Object {
	return []runtime.Object{
		node("n1"), podNamespace(), fixture.StorageClass("local", ""), fixture.Volume("v", "local").Obj(),
		fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(),
	}
}

const noVolume = "False Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."

// What is assumed of volumes is the house's, and not a generation's.
func TestASwapKeepsAssumedVolumes(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.cluster.RunVolumeController()
		w.a.PermitTimeout = time.Hour
		w.a.SetStatus("Permit", probe.Wait)
		w.run(w.volumeBlueprint("old"))
		defer w.startLeading()()
		w.create(owner("a"))
		w.run(w.volumeBlueprint("new"))
		w.create(owner("b"))
		w.want("b, while a waits at Permit under the old generation", w.podScheduled("b"), noVolume)

		w.waitingPods.Get(webPod("a").UID).Allow("A")
		synctest.Wait()
		w.want("a", w.nodeOf("a"), "n1")
		w.want("whose the volume is", w.cluster.BoundVolumes()["v"], "default/a")
	}, oneVolume()...)
}

// A volume that is given back has no event of the API server: nothing was
// written. Who was refused because of it hears of it all the same.
func TestAReleasedVolumeWakesPodsThatWantIt(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.cluster.RunVolumeController()
		w.a.PermitTimeout = time.Hour
		w.a.SetStatus("Permit", probe.Wait)
		w.run(w.volumeBlueprint("only"))
		defer w.startLeading()()
		w.create(owner("a"))
		w.create(owner("b"))
		w.want("b, while a waits at Permit", w.podScheduled("b"), noVolume)

		w.a.SetStatus("Permit", nil)
		w.cluster.DeletePod(owner("a"))
		synctest.Wait()
		time.Sleep(time.Minute) // b's backoff
		synctest.Wait()
		w.want("b", w.nodeOf("b"), "n1")
		w.want("whose the volume is", w.cluster.BoundVolumes()["v"], "default/b")
	}, oneVolume()...)
}
