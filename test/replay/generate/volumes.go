package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/sandbox/log"

	"github.com/berthdev/berth/test/support/fixture"
	storagev1 "k8s.io/api/storage/v1"
)

// addVolumes gives the pod one or two volumes.
func (g *Generator) addVolumes(pod *v1.Pod) {
	for range g.between(1, 2) {
		draw(g.random, []weighted[func(*v1.Pod)]{{9, g.addClaim}, {2, g.addEphemeral}, {4, g.addDisk}, {1, func(pod *v1.Pod) {
			g.addVolume(pod, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		}}})(pod)
	}
}

func (g *Generator) addVolume(pod *v1.Pod, source v1.VolumeSource) string {
	name := fmt.Sprintf("v%d", len(pod.Spec.Volumes))
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return name
}

// addClaim has the pod use a claim of its namespace, rarely one that does not exist.
func (g *Generator) addClaim(pod *v1.Pod) {
	name := pick(g.random, claimNames)
	if g.chance(2) {
		name = "nobody's"
	}
	g.addClaimOf(pod, name)
}

// addClaimOf has the pod use the named claim.
func (g *Generator) addClaimOf(pod *v1.Pod, name string) {
	g.addVolume(pod, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

// addEphemeral adds an ephemeral volume. Most often its claim is created before the pod is
// scheduled, and most often the pod owns it.
func (g *Generator) addEphemeral(pod *v1.Pod) {
	name := g.addVolume(pod, v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}})
	if g.chance(10) {
		return
	}
	claim := g.claim(pod.Namespace, pod.Name+"-"+name).(*v1.PersistentVolumeClaim)
	claim.Spec.VolumeName, claim.Status.Phase, claim.Annotations = "", v1.ClaimPending, nil
	owner := types.UID(pod.Namespace + "/" + pod.Name)
	if g.attempts > 0 && g.chance(4) {
		owner = "another"
	}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: owner, Controller: new(true)}}
	g.prerequisites = append(g.prerequisites, log.Op{Kind: log.Apply, Object: claim})
}

// addDisk adds a disk that the pod names itself.
func (g *Generator) addDisk(pod *v1.Pod) {
	disk, reads := pick(g.random, []string{"d1", "d2"}), g.chance(50)
	g.addVolume(pod, pick(g.random, []v1.VolumeSource{
		{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: disk, ReadOnly: reads}},
		{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: disk, ReadOnly: reads}},
		{ISCSI: &v1.ISCSIVolumeSource{IQN: disk, ReadOnly: reads}},
		{RBD: &v1.RBDVolumeSource{CephMonitors: some(g.random, []string{"m1", "m2", "m3"}, 3), RBDPool: "p", RBDImage: disk, ReadOnly: reads}},
	}))
}

// volumeName is the name of a claim's volume.
func volumeName(namespace, claim string) string { return namespace + "-" + claim }

// volumeOf is the volume of a claim, bound to it or not.
func (g *Generator) volumeOf(namespace, claim string) log.Object {
	name := volumeName(namespace, claim)
	v := g.volume(name, pick(g.random, classes).name)
	if g.chance(95) {
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim, UID: types.UID(namespace + "/" + claim)}
		v.Status.Phase = v1.VolumeBound
	}
	return v
}

// freeVolume is a volume that no claim is bound to.
func (g *Generator) freeVolume(i int) log.Object {
	v := g.volume(fmt.Sprintf("free-%d", i), "local")
	if g.chance(75) {
		v.Spec.NodeAffinity = reached(v1.LabelTopologyZone, zones[i%len(zones)])
	}
	if i < len(namespaces) && g.chance(30) {
		// Only one claim may be bound to it: for two, kube-scheduler would choose either.
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespaces[i], Name: "raw"}
	}
	return v
}

// volume returns a volume of any kind and topology.
func (g *Generator) volume(name, class string) *v1.PersistentVolume {
	// No two have the same size: of such, kube-scheduler takes any.
	number := keep(g, "number of "+name, func() int { return len(g.fixed) })
	v := fixture.Volume(name, class).Capacity(fmt.Sprintf("%dMi", pick(g.random, []int{1, 2, 5, 10})*1024+number)).Obj()
	v.ResourceVersion = ""
	v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteOncePod}
	v.Spec.PersistentVolumeSource = keep(g, "source of "+name, func() v1.PersistentVolumeSource { return g.source(name) })
	if g.chance(35) {
		for key, values := range sorted(map[string][]string{
			v1.LabelTopologyZone: {"a", "b", "a__b", "b__c", "a____c"}, v1.LabelTopologyRegion: regions,
			v1.LabelFailureDomainBetaZone: zones, v1.LabelFailureDomainBetaRegion: regions,
		}) {
			if g.chance(35) {
				metav1.SetMetaDataLabel(&v.ObjectMeta, key, pick(g.random, values))
			}
		}
	}
	switch {
	case g.chance(30):
		v.Spec.NodeAffinity = reached(v1.LabelTopologyZone, pick(g.random, zones), pick(g.random, zones))
	case g.chance(8):
		v.Spec.NodeAffinity = reached(v1.LabelHostname, g.someNode())
	}
	return v
}

// source returns the source of a volume.
func (g *Generator) source(name string) v1.PersistentVolumeSource {
	switch g.IntN(10) {
	case 0:
		return v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name}}
	case 1:
		return v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}}
	case 2, 3:
		return v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/" + name}}
	}
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: pick(g.random, drivers), VolumeHandle: name}}
}

func reached(label string, values ...string) *v1.VolumeNodeAffinity {
	return fixture.Volume("any", "").NodeAffinity(label, values...).Obj().Spec.NodeAffinity
}

// driversOn returns the CSINode of a node: its drivers, their limits, and the plugins that are
// migrated to drivers.
func (g *Generator) driversOn(node string) log.Object {
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if g.chance(30) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1.MigratedPluginsAnnotationKey, "kubernetes.io/aws-ebs")
	}
	for _, driver := range drivers {
		if !g.chance(75) {
			continue
		}
		on := storagev1.CSINodeDriver{Name: driver, NodeID: node}
		if g.chance(75) {
			most := int32(draw(g.random, []weighted[int]{{1, 0}, {5, 1}, {3, 2}, {2, 4}}))
			on.Allocatable = &storagev1.VolumeNodeResources{Count: &most}
		}
		object.Spec.Drivers = append(object.Spec.Drivers, on)
	}
	return object
}

// attachment attaches a volume of one of claims to a node.
func (g *Generator) attachment(node string, claims []string) log.Object {
	name := volumeName(pick(g.random, namespaces), pick(g.random, claims))
	attacher := keep(g, "attacher of "+name+" to "+node, func() string { return pick(g.random, drivers) })
	object := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
		Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
	}}
	if node != "" {
		object.Name = name + "-on-" + node
	}
	return object
}
