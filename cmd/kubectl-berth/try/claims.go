package try

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// numbered takes what a StatefulSet gives each of its pods: a number, and claims
// of its own, in place of the template's volumes of their names.
func (s *subject) fromStatefulSet(set *appsv1.StatefulSet) {
	if set.Spec.Ordinals != nil {
		s.firstOrdinal = int(set.Spec.Ordinals.Start)
	}
	s.claimTemplates = set.Spec.VolumeClaimTemplates
	s.pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(s.pod.Spec.Volumes), func(v v1.Volume) bool {
		return slices.ContainsFunc(s.claimTemplates, func(t v1.PersistentVolumeClaim) bool { return t.Name == v.Name })
	})
	for _, t := range s.claimTemplates {
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, v1.Volume{Name: t.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("%s-%s-%d", t.Name, s.pod.Name, s.firstOrdinal)},
		}})
	}
}

// holdsItsOwn has a pod use the claims of its own name.
func (s *subject) useOwnClaims(pod *v1.Pod) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && slices.ContainsFunc(s.claimTemplates, func(t v1.PersistentVolumeClaim) bool { return t.Name == v.Name }) {
			v.PersistentVolumeClaim.ClaimName = v.Name + "-" + pod.Name
		}
	}
}

// makeClaims adds the claims that controllers would make for the pods to the
// copy, so that what may be made for them, and where, is part of the answer. Those
// that are there are taken as they are.
func (s *subject) addClaims(live *state.State) {
	known, waiting, usual := storageOf(live)
	there, atOnce := 0, map[string]bool{}
	for _, pod := range s.pods() {
		for _, claim := range s.claimsOf(pod) {
			if known[claim.Namespace+"/"+claim.Name] {
				there++
				continue
			}
			if claim.Spec.StorageClassName == nil && claim.Annotations[v1.BetaStorageClassAnnotation] == "" && usual != nil {
				claim.Spec.StorageClassName = &usual.Name
			}
			live.Others = append(live.Others, claim)
			// Of a class that is not there a plugin says so.
			class := volume.GetPersistentVolumeClaimClass(claim)
			if waits, is := waiting[class]; !waits && (is || class == "") {
				atOnce[class] = true
			}
		}
	}
	if there > 0 {
		s.notes = append(s.notes, fmt.Sprintf("claims of these pods that are there already are taken as they are, and their volumes where they are: %d", there))
	}
	for _, class := range slices.Sorted(maps.Keys(atOnce)) {
		s.notes = append(s.notes, fmt.Sprintf("claims of StorageClass %q are bound before their pods are tried, and not with a node in mind: "+
			"where the pods may go is known when the volumes are there", class))
	}
}

// claimsOf are the claims that a pod has to itself: those of a StatefulSet's
// templates, and those that last as long as the pod.
func (s *subject) claimsOf(pod *v1.Pod) []*v1.PersistentVolumeClaim {
	var claims []*v1.PersistentVolumeClaim
	for _, t := range s.claimTemplates {
		claims = append(claims, newClaim(pod, t.Name+"-"+pod.Name, t.ObjectMeta, t.Spec))
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		t := v.Ephemeral.VolumeClaimTemplate
		claim := newClaim(pod, ephemeral.VolumeClaimName(pod, v), t.ObjectMeta, t.Spec)
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		claims = append(claims, claim)
	}
	return claims
}

// asMade is a claim as it is before anybody has looked at it.
func newClaim(pod *v1.Pod, name string, metadata metav1.ObjectMeta, spec v1.PersistentVolumeClaimSpec) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: *metadata.DeepCopy(), Spec: *spec.DeepCopy()}
	claim.Namespace, claim.Name = pod.Namespace, name
	claim.UID = types.UID(placeholder + "/" + pod.Namespace + "/" + name)
	claim.Status.Phase = v1.ClaimPending
	return claim
}

// storageOf is what there is of claims, by namespace/name; of classes, and whether
// their claims wait for a first consumer; and the class of those that name none:
// of several defaults the newest, and of one age the first by name.
func storageOf(live *state.State) (claims, waiting map[string]bool, usual *storagev1.StorageClass) {
	claims, waiting = map[string]bool{}, map[string]bool{}
	for _, object := range live.Others {
		switch o := object.(type) {
		case *v1.PersistentVolumeClaim:
			claims[o.Namespace+"/"+o.Name] = true
		case *storagev1.StorageClass:
			waiting[o.Name] = o.VolumeBindingMode != nil && *o.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
			if isDefault(o) && (usual == nil || isNewer(o, usual)) {
				usual = o
			}
		}
	}
	return claims, waiting, usual
}

func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

func isNewer(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}
