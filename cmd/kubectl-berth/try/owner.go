package try

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// placeholder stands for names and hashes that a controller would generate.
const placeholder = "try"

// setOwner sets the owner of the pod, which default spreading reads: the object of that kind
// and name in the cluster, or else the one of the file, which is added to the copy.
func (s *subject) setOwner(live *state.State) {
	switch maker := s.controller.(type) {
	case *appsv1.Deployment:
		s.setOwnerReference(live, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), s.replicaSet(live, maker))
	case *appsv1.ReplicaSet:
		s.setOwnerReference(live, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), maker.DeepCopy())
	case *appsv1.StatefulSet:
		s.setOwnerReference(live, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), maker.DeepCopy())
	case *v1.ReplicationController:
		s.setOwnerReference(live, v1.SchemeGroupVersion.WithKind("ReplicationController"), maker.DeepCopy())
	case *batchv1.Job:
		s.addLabels(map[string]string{batchv1.JobNameLabel: maker.Name, "job-name": maker.Name})
	}
}

func (s *subject) setOwnerReference(live *state.State, kind schema.GroupVersionKind, owner state.Object) {
	owner.SetNamespace(s.pod.Namespace)
	if there := live.Find(owner); there != nil {
		owner = there
	} else {
		owner.SetUID(types.UID(placeholder + "/" + owner.GetName()))
		live.Others = append(live.Others, owner)
	}
	s.pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	s.pod.OwnerReferences[0].BlockOwnerDeletion = nil // which needs a permission of its own
}

// replicaSet returns the newest ReplicaSet of the Deployment in the cluster, or a new one.
func (s *subject) replicaSet(live *state.State, deployment *appsv1.Deployment) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	for _, o := range live.Others {
		set, is := o.(*appsv1.ReplicaSet)
		if !is || set.Namespace != s.pod.Namespace {
			continue
		}
		owner := metav1.GetControllerOf(set)
		if owner != nil && owner.Kind == "Deployment" && owner.Name == deployment.Name && (newest == nil || revisionOf(set) > revisionOf(newest)) {
			newest = set
		}
	}
	hash := placeholder
	if newest != nil {
		hash = newest.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		s.notes = append(s.notes, "the pods are added to ReplicaSet "+newest.Name+", the newest of the Deployment; its existing pods stay where they are")
	} else {
		newest = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name + "-" + placeholder}}
		if selector := deployment.Spec.Selector; selector != nil {
			newest.Spec.Selector = metav1.CloneSelectorAndAddLabel(selector, appsv1.DefaultDeploymentUniqueLabelKey, hash)
		}
	}
	s.addLabels(map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash})
	return newest
}

// revisionOf returns the revision of the Deployment that a ReplicaSet is for.
func revisionOf(set *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(set.Annotations["deployment.kubernetes.io/revision"])
	return n
}

func (s *subject) addLabels(labels map[string]string) {
	all := maps.Clone(labels)
	maps.Copy(all, s.pod.Labels)
	s.pod.Labels = all
}
