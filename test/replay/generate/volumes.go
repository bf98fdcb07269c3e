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

// addVolumes gives the pod a volume or two.
func (g *Generator) addVolumes(pod *v1.Pod) {
	for range g.between(1, 2) {
		draw(g.dice, []weighted[func(*v1.Pod)]{{9, g.addClaim}, {2, g.addEphemeral}, {4, g.addDisk}, {1, func(pod *v1.Pod) {
			g.addVolume(pod, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		}}})(pod)
	}
}

func (g *Generator) addVolume(pod *v1.Pod, source v1.VolumeSource) string {
	name := fmt.Sprintf("v%d", len(pod.Spec.Volumes))
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return name
}

// addClaim has the pod use a claim of its namespace, seldom one that never was.
func (g *Generator) addClaim(pod *v1.Pod) {
	name := pick(g.dice, claimNames)
	if g.chance(2) {
		name = "nobody's"
	}
	g.addClaimOf(pod, name)
}

// addClaimOf has the pod use the claim of that name.
func (g *Generator) addClaimOf(pod *v1.Pod, name string) {
	g.addVolume(pod, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

// addEphemeral adds a volume that is made for the pod. Most often its claim is
// there before the pod is tried, and most often it is the pod's.
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
	g.ahead = append(g.ahead, log.Op{Kind: log.Apply, Object: claim})
}

// addDisk adds a disk that the pod names itself.
func (g *Generator) addDisk(pod *v1.Pod) {
	disk, reads := pick(g.dice, []string{"d1", "d2"}), g.chance(50)
	g.addVolume(pod, pick(g.dice, []v1.VolumeSource{
		{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: disk, ReadOnly: reads}},
		{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: disk, ReadOnly: reads}},
		{ISCSI: &v1.ISCSIVolumeSource{IQN: disk, ReadOnly: reads}},
		{RBD: &v1.RBDVolumeSource{CephMonitors: some(g.dice, []string{"m1", "m2", "m3"}, 3), RBDPool: "p", RBDImage: disk, ReadOnly: reads}},
	}))
}

// volumeName is what the volume of a claim is called.
func volumeName(namespace, claim string) string { return namespace + "-" + claim }

// volumeOf is the volume that a claim is bound to, if it is.
func (g *Generator) volumeOf(namespace, claim string) log.Object {
	name := volumeName(namespace, claim)
	v := g.volume(name, pick(g.dice, classes).name)
	if g.chance(95) {
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim, UID: types.UID(namespace + "/" + claim)}
		v.Status.Phase = v1.VolumeBound
	}
	return v
}

// freeVolume is one that somebody made for whoever comes.
func (g *Generator) freeVolume(i int) log.Object {
	v := g.volume(fmt.Sprintf("free-%d", i), "local")
	if g.chance(75) {
		v.Spec.NodeAffinity = reached(v1.LabelTopologyZone, zones[i%len(zones)])
	}
	if i < len(namespaces) && g.chance(30) {
		// It waits for one claim alone. Of two that wait for the same claim
		// kube-scheduler would take any.
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespaces[i], Name: "raw"}
	}
	return v
}

// volume makes up a volume of any kind, anywhere.
func (g *Generator) volume(name, class string) *v1.PersistentVolume {
	// No two are equally large: of such kube-scheduler takes any.
	number := keep(g, "number of "+name, func() int { return len(g.kept) })
	v := fixture.Volume(name, class).Capacity(fmt.Sprintf("%dMi", pick(g.dice, []int{1, 2, 5, 10})*1024+number)).Obj()
	v.ResourceVersion = ""
	v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteOncePod}
	v.Spec.PersistentVolumeSource = keep(g, "source of "+name, func() v1.PersistentVolumeSource { return g.source(name) })
	if g.chance(35) {
		for key, values := range sorted(map[string][]string{
			v1.LabelTopologyZone: {"a", "b", "a__b", "b__c", "a____c"}, v1.LabelTopologyRegion: regions,
			v1.LabelFailureDomainBetaZone: zones, v1.LabelFailureDomainBetaRegion: regions,
		}) {
			if g.chance(35) {
				metav1.SetMetaDataLabel(&v.ObjectMeta, key, pick(g.dice, values))
			}
		}
	}
	switch {
	case g.chance(30):
		v.Spec.NodeAffinity = reached(v1.LabelTopologyZone, pick(g.dice, zones), pick(g.dice, zones))
	case g.chance(8):
		v.Spec.NodeAffinity = reached(v1.LabelHostname, g.someNode())
	}
	return v
}

// source makes up what a volume is.
func (g *Generator) source(name string) v1.PersistentVolumeSource {
	switch g.IntN(10) {
	case 0:
		return v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name}}
	case 1:
		return v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}}
	case 2, 3:
		return v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/" + name}}
	}
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: pick(g.dice, drivers), VolumeHandle: name}}
}

func reached(label string, values ...string) *v1.VolumeNodeAffinity {
	return fixture.Volume("any", "").NodeAffinity(label, values...).Obj().Spec.NodeAffinity
}

// driversOn says which drivers are on a node, and how much they attach.
func (g *Generator) driversOn(node string) log.Object {
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for _, driver := range drivers {
		if !g.chance(75) {
			continue
		}
		on := storagev1.CSINodeDriver{Name: driver, NodeID: node}
		if g.chance(75) {
			most := int32(draw(g.dice, []weighted[int]{{1, 0}, {5, 1}, {3, 2}, {2, 4}}))
			on.Allocatable = &storagev1.VolumeNodeResources{Count: &most}
		}
		object.Spec.Drivers = append(object.Spec.Drivers, on)
	}
	return object
}

// attachment says that a volume is attached to a node.
func (g *Generator) attachment(node string) log.Object {
	name := volumeName(pick(g.dice, namespaces), pick(g.dice, claimNames))
	attacher := keep(g, "attacher of "+name+" to "+node, func() string { return pick(g.dice, drivers) })
	object := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
		Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
	}}
	if node != "" {
		object.Name = name + "-on-" + node
	}
	return object
}
