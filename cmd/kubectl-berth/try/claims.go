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

// fromStatefulSet takes what a StatefulSet gives each of its pods: an ordinal, and claims of
// its own instead of the volumes of the template with their names.
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

// useOwnClaims makes a pod use the claims with its own name.
func (s *subject) useOwnClaims(pod *v1.Pod) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && slices.ContainsFunc(s.claimTemplates, func(t v1.PersistentVolumeClaim) bool { return t.Name == v.Name }) {
			v.PersistentVolumeClaim.ClaimName = v.Name + "-" + pod.Name
		}
	}
}

// addClaims adds the claims that controllers would create for the pods to the copy, so that
// the result accounts for provisioning. Existing claims are used as they are.
func (s *subject) addClaims(live *state.State) {
	known, waitForConsumer, defaultClass := storageOf(live)
	existing, immediate := 0, map[string]bool{}
	for _, pod := range s.pods() {
		for _, claim := range s.claimsOf(pod) {
			if known[claim.Namespace+"/"+claim.Name] {
				existing++
				continue
			}
			if claim.Spec.StorageClassName == nil && claim.Annotations[v1.BetaStorageClassAnnotation] == "" && defaultClass != nil {
				claim.Spec.StorageClassName = &defaultClass.Name
			}
			live.Others = append(live.Others, claim)
			// A plugin reports a StorageClass that does not exist.
			class := volume.GetPersistentVolumeClaimClass(claim)
			if waits, known := waitForConsumer[class]; !waits && (known || class == "") {
				immediate[class] = true
			}
		}
	}
	if existing > 0 {
		s.notes = append(s.notes, fmt.Sprintf("existing claims of these pods are used as they are, with their volumes: %d", existing))
	}
	for _, class := range slices.Sorted(maps.Keys(immediate)) {
		s.notes = append(s.notes, fmt.Sprintf("claims of StorageClass %q are bound immediately, without regard to pods: "+
			"the nodes that the pods can run on are known once the volumes exist", class))
	}
}

// claimsOf returns the claims of a pod: those of the templates of a StatefulSet, and those
// of ephemeral volumes.
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

// newClaim returns a claim as a controller creates it.
func newClaim(pod *v1.Pod, name string, metadata metav1.ObjectMeta, spec v1.PersistentVolumeClaimSpec) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: *metadata.DeepCopy(), Spec: *spec.DeepCopy()}
	claim.Namespace, claim.Name = pod.Namespace, name
	claim.UID = types.UID(placeholder + "/" + pod.Namespace + "/" + name)
	claim.Status.Phase = v1.ClaimPending
	return claim
}

// storageOf returns the existing claims by namespace/name; the StorageClasses, and whether
// their claims wait for the first consumer; and the default StorageClass: the newest of
// several, and of those with the same age the first by name.
func storageOf(live *state.State) (claims, waitForConsumer map[string]bool, defaultClass *storagev1.StorageClass) {
	claims, waitForConsumer = map[string]bool{}, map[string]bool{}
	for _, object := range live.Others {
		switch o := object.(type) {
		case *v1.PersistentVolumeClaim:
			claims[o.Namespace+"/"+o.Name] = true
		case *storagev1.StorageClass:
			waitForConsumer[o.Name] = o.VolumeBindingMode != nil && *o.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
			if isDefault(o) && (defaultClass == nil || isNewer(o, defaultClass)) {
				defaultClass = o
			}
		}
	}
	return claims, waitForConsumer, defaultClass
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
