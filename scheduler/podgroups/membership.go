// Package podgroups says which pods form a group, and holds the PodGroups and the pods of
// each group.
//
// Pods name their group in one of four ways: by spec.schedulingGroup, by an annotation of
// Berth, by the label of SIG Scheduling's coscheduling plugin, or by the label of Kueue. A
// group that is not named by spec.schedulingGroup has no PodGroup of scheduling.k8s.io; the
// package makes one from what its pods, or the coscheduling plugin's PodGroup, say.
package podgroups

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Source is how the pods of a group name it.
type Source string

// The sources, in the order of KeyOf but for Native, which comes last there.
const (
	// Native is spec.schedulingGroup, which names a PodGroup of scheduling.k8s.io.
	Native Source = "PodGroup"
	// Annotation is the annotation berth.dev/pod-group.
	Annotation Source = "Annotation"
	// Coscheduling is the label of the coscheduling plugin, which names a PodGroup of
	// scheduling.x-k8s.io.
	Coscheduling Source = "Coscheduling"
	// Kueue is the label that Kueue reads on plain pods.
	Kueue Source = "Kueue"
)

// What other projects call their labels and annotations: sigs.k8s.io/scheduler-plugins,
// apis/scheduling/v1alpha1, and sigs.k8s.io/kueue, pkg/controller/jobs/pod/constants.
const (
	coschedulingLabel         = "scheduling.x-k8s.io/pod-group"
	kueueLabel                = "kueue.x-k8s.io/pod-group-name"
	kueueTotalCountAnnotation = "kueue.x-k8s.io/pod-group-total-count"
)

// Key identifies a group. Groups of different sources are different groups, also where
// their names are equal.
type Key struct {
	Source          Source
	Namespace, Name string
}

func (k Key) String() string {
	if k.Source == Native {
		return k.Namespace + "/" + k.Name
	}
	return k.Namespace + "/" + k.Name + " (" + string(k.Source) + ")"
}

// KeyOf returns the group that a pod names; ok is false for a pod that names none. What the
// author of a pod template writes comes before spec.schedulingGroup: the Job controller names a
// PodGroup of its own there, which is no gang unless the Job asks for one.
func KeyOf(pod *v1.Pod) (key Key, ok bool) {
	for _, named := range []struct {
		source Source
		name   string
	}{
		{Annotation, pod.Annotations[v1alpha1.AnnotationPodGroup]},
		{Coscheduling, pod.Labels[coschedulingLabel]},
		{Kueue, pod.Labels[kueueLabel]},
	} {
		if named.name != "" {
			return Key{named.source, pod.Namespace, named.name}, true
		}
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return Key{Native, pod.Namespace, *group.PodGroupName}, true
	}
	return Key{}, false
}

// declaredMinCount returns the number of pods that must be scheduled together, as one pod of
// the group says. ok is false for a source whose PodGroup says it. The error names the
// annotation that is missing or invalid.
func declaredMinCount(source Source, pod *v1.Pod) (count int32, ok bool, err error) {
	annotation := ""
	switch source {
	case Annotation:
		annotation = v1alpha1.AnnotationPodGroupMinCount
	case Kueue:
		annotation = kueueTotalCountAnnotation
	default:
		return 0, false, nil
	}
	path := field.NewPath("metadata", "annotations").Key(annotation)
	text, set := pod.Annotations[annotation]
	if !set {
		return 0, true, field.Required(path, "must be the number of pods that are scheduled together")
	}
	parsed, err := strconv.ParseInt(text, 10, 32)
	if err != nil || parsed < 1 {
		return 0, true, field.Invalid(path, text, "must be a whole number of at least 1")
	}
	return int32(parsed), true, nil
}

// DeclaredMinCount returns how many pods of its group must be scheduled together as a pod
// itself says; 0 where it says nothing valid, or where the group's PodGroup says it.
func DeclaredMinCount(pod *v1.Pod) int32 {
	key, _ := KeyOf(pod)
	count, _, _ := declaredMinCount(key.Source, pod)
	return count
}

// Validate returns why the group that a pod names cannot be scheduled, as far as the pod says:
// the annotation that is missing or invalid.
func Validate(pod *v1.Pod) error {
	key, ok := KeyOf(pod)
	if !ok {
		return nil
	}
	_, _, err := declaredMinCount(key.Source, pod)
	return err
}

// differingCountsError says that two pods of a group declare different numbers.
func differingCountsError(a, b *v1.Pod, countA, countB int32) error {
	return fmt.Errorf("the pods of a group must agree on how many are scheduled together: pod %s says %d, pod %s says %d",
		a.Name, countA, b.Name, countB)
}
