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
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins/volumebinding"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// served are the kinds of storage, where objects are of them.
func served(t *testing.T, cluster *fakecluster.Cluster, objects []runtime.Object) intake.Storage {
	t.Helper()
	if !slices.ContainsFunc(objects, func(o runtime.Object) bool { _, is := o.(*storagev1.StorageClass); return is }) {
		return intake.Storage{}
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
	storage, err := intake.NewStorage(discovery)
	if err != nil {
		t.Fatal(err)
	}
	return storage
}

// volumeBlueprint runs VolumeBinding, A and the real binder.
func (w *world) volumeBlueprint(hash string) *compile.Blueprint {
	name := volumebinding.Name
	w.options.Registry[name] = framework.Registration{Name: name, New: volumebinding.New, BuiltIn: true}
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
func owner(name string) *v1.Pod { return fixture.Pod(name).Scheduler("p").Claim(name).Obj() }

// oneVolume is a cluster with one volume, which the claims a and b are after.
func oneVolume() []runtime.Object {
	return []runtime.Object{
		node("n1"), home(), fixture.StorageClass("local", ""), fixture.Volume("v", "local").Obj(),
		fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(),
	}
}

const noVolume = "False Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."

// What is assumed of volumes is the house's, and not a generation's.
func TestASwapKeepsWhatIsAssumedOfVolumes(t *testing.T) {
	inTime(t, func(w *world) {
		w.cluster.Control()
		w.a.Waits = time.Hour
		w.a.Set("Permit", probe.Wait)
		w.run(w.volumeBlueprint("old"))
		defer w.lead()()
		w.create(owner("a"))
		w.run(w.volumeBlueprint("new"))
		w.create(owner("b"))
		w.want("b, while a waits at Permit under the old generation", w.scheduled("b"), noVolume)

		w.waiting.Get(web("a").UID).Allow("A")
		synctest.Wait()
		w.want("a", w.on("a"), "n1")
		w.want("whose the volume is", w.cluster.Bound()["v"], "default/a")
	}, oneVolume()...)
}

// A volume that is given back has no event of the API server: nothing was
// written. Who was refused because of it hears of it all the same.
func TestAVolumeThatIsGivenBackWakesWhoWantsIt(t *testing.T) {
	inTime(t, func(w *world) {
		w.cluster.Control()
		w.a.Waits = time.Hour
		w.a.Set("Permit", probe.Wait)
		w.run(w.volumeBlueprint("only"))
		defer w.lead()()
		w.create(owner("a"))
		w.create(owner("b"))
		w.want("b, while a waits at Permit", w.scheduled("b"), noVolume)

		w.a.Set("Permit", nil)
		w.cluster.Remove(owner("a"))
		synctest.Wait()
		time.Sleep(time.Minute) // b's backoff
		synctest.Wait()
		w.want("b", w.on("b"), "n1")
		w.want("whose the volume is", w.cluster.Bound()["v"], "default/b")
	}, oneVolume()...)
}
