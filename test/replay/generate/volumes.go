package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/offline/log"
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
