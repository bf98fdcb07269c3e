package generate

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// The drivers of volumes. Only the second has a CSIDriver that keeps pods off nodes without
// it: of several, kube-scheduler names any. The third replaces an in-tree volume type.
var drivers = []string{"one.csi.example.com", "two.csi.example.com", "pd.csi.storage.gke.io"}

// classes cover every kind of StorageClass.
var classes = []struct {
	name, provisioner string
	mode              storagev1.VolumeBindingMode // "" for none
}{
	{"late", drivers[0], storagev1.VolumeBindingWaitForFirstConsumer},
	{"two", drivers[1], storagev1.VolumeBindingWaitForFirstConsumer},
	{"disk", "kubernetes.io/gce-pd", storagev1.VolumeBindingWaitForFirstConsumer},
	{"local", volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer},
	{"now", drivers[0], storagev1.VolumeBindingImmediate},
	{"modeless", drivers[0], ""},
}

// claimNames are the claims in each namespace; unbound has the class of those that are never
// bound when a pod is scheduled: one binds to a free volume, the other is provisioned where
// there is capacity.
var (
	claimNames = []string{"data", "logs", "cache", "own", "raw", "fresh"}
	unbound    = map[string]string{"raw": "local", "fresh": "late"}
)

// freeVolumes is the number of volumes that no claim is bound to.
const freeVolumes = 12

// sizes are those of claims and volumes.
var sizes = []string{"1Gi", "2Gi", "5Gi", "10Gi"}

// storage returns the first storage objects.
func (g *Generator) storage() (ops []log.Op) {
	add := func(percent int, object log.Object) {
		if g.chance(percent) {
			ops = append(ops, log.Op{Kind: log.Apply, Object: object})
		}
	}
	for i := range classes {
		add(92, g.class(i))
	}
	for _, driver := range drivers {
		add(80, g.driver(driver))
	}
	for _, namespace := range namespaces {
		for _, name := range claimNames {
			add(90, g.claim(namespace, name))
			if unbound[name] == "" {
				add(88, g.volumeOf(namespace, name))
			}
		}
	}
	for i := range freeVolumes {
		add(80, g.freeVolume(i))
	}
	for _, zone := range zones {
		add(85, g.capacity(zone))
	}
	return ops
}

// changeStorage changes or deletes one storage object.
func (g *Generator) changeStorage() (log.Op, bool) {
	object := draw(g.random, []weighted[func() log.Object]{
		{1, func() log.Object { return g.class(g.IntN(len(classes))) }},
		{1, func() log.Object { return g.driver(pick(g.random, drivers)) }},
		{5, func() log.Object { return g.claim(pick(g.random, namespaces), pick(g.random, claimNames)) }},
		{5, func() log.Object { return g.volumeOf(pick(g.random, namespaces), pick(g.random, claimNames[:4])) }},
		{3, func() log.Object { return g.freeVolume(g.IntN(freeVolumes)) }},
		{2, func() log.Object { return g.capacity(pick(g.random, zones)) }},
		{7, func() log.Object { return g.driversOn(g.someNode()) }},
		{4, func() log.Object { return g.attachment(g.someNode(), claimNames) }},
	})()
	if object.GetName() == "" {
		return log.Op{}, false // there is no node
	}
	percent := 25
	if _, ok := object.(*storagev1.VolumeAttachment); ok { // few of them count while a pod is pending
		percent = 50
	}
	if g.chance(percent) {
		return log.Op{Kind: log.Delete, Object: object}, true
	}
	return log.Op{Kind: log.Apply, Object: object}, true
}

func (g *Generator) class(i int) log.Object {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: classes[i].name}, Provisioner: classes[i].provisioner}
	switch mode := classes[i].mode; {
	case mode != "":
		class.VolumeBindingMode = &mode
	case g.defaulted:
		class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
	if g.chance(25) {
		class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: v1.LabelTopologyZone, Values: some(g.random, zones, 2)},
		}}}
	}
	return class
}

func (g *Generator) driver(name string) log.Object {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
	counting := 30
	if name == drivers[0] { // the one with CSIStorageCapacities
		counting = 80
	}
	prevents, capacity := name == drivers[1] && g.chance(80), g.chance(counting)
	driver.Spec.PreventPodSchedulingIfMissing, driver.Spec.StorageCapacity = &prevents, &capacity
	return driver
}

func (g *Generator) claim(namespace, name string) log.Object {
	key := namespace + "/" + name
	class := keep(g, "class of "+key, func() string {
		if always := unbound[name]; always != "" {
			return always
		}
		return pick(g.random, classes).name
	})
	claim := fixture.Claim(key, class).Requests(pick(g.random, sizes)).Obj()
	claim.UID, claim.ResourceVersion = types.UID(key), ""
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{
		keep(g, "mode of "+key, func() v1.PersistentVolumeAccessMode {
			return pick(g.random, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadOnlyMany})
		}),
	}
	if name == "own" {
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	if unbound[name] != "" {
		// No volume has that size, so that the next larger one gets a score.
		claim.Spec.Resources.Requests = fixture.Resources("storage", pick(g.random, []string{"500Mi", "1500Mi"}))
	}
	switch {
	case unbound[name] != "":
	case g.chance(65):
		claim.Spec.VolumeName, claim.Status.Phase = volumeName(namespace, name), v1.ClaimBound
		if g.chance(93) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
		}
	case g.chance(10):
		claim.Spec.StorageClassName = nil
	case g.chance(10):
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, g.someNode())
	}
	if g.chance(4) {
		claim.DeletionTimestamp = &metav1.Time{Time: claim.CreationTimestamp.AddDate(0, 0, 1)}
	}
	return claim
}

// keep generates a value that is immutable in the API once, and returns it from then on.
func keep[T any](g *Generator, what string, made func() T) T {
	if known, ok := g.fixed[what]; ok {
		return known.(T)
	}
	if g.fixed == nil {
		g.fixed = map[string]any{}
	}
	one := made()
	g.fixed[what] = one
	return one
}

func (g *Generator) capacity(zone string) log.Object {
	most := pick(g.random, sizes)
	amount := fixture.Resources("storage", most)[v1.ResourceStorage]
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: namespaces[0], Name: "in-" + zone},
		StorageClassName: classes[0].name, Capacity: &amount,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}},
	}
}
