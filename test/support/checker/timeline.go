package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/history"
)

// key identifies an object by kind, namespace and name.
type key struct{ kind, namespace, name string }

// String is the key as in "Pod shop/web".
func (k key) String() string {
	return k.kind + " " + strings.TrimPrefix(k.namespace+"/"+k.name, "/")
}

// kindOf returns the kind of an object, such as "Pod".
func kindOf(object client.Object) string {
	switch object.(type) {
	case *corev1.Pod:
		return "Pod"
	case *corev1.Node:
		return "Node"
	case *corev1.PersistentVolumeClaim:
		return "PersistentVolumeClaim"
	case *corev1.PersistentVolume:
		return "PersistentVolume"
	case *resourcev1.ResourceClaim:
		return "ResourceClaim"
	case *schedulingv1beta1.PodGroup:
		return "PodGroup"
	case *coordinationv1.Lease:
		return "Lease"
	case *corev1.ConfigMap:
		return "ConfigMap"
	case *appsv1.ControllerRevision:
		return "ControllerRevision"
	case *v1alpha1.SchedulingProfile:
		return "SchedulingProfile"
	case *v1alpha1.SchedulingDecision:
		return "SchedulingDecision"
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return name
}

func keyOf(object client.Object) key {
	return key{kindOf(object), object.GetNamespace(), object.GetName()}
}

// timeline is the history by object.
type timeline struct {
	Input
	// versions are those of each object, in order.
	versions map[key][]*history.Change
	// pods are the keys of the pods by UID, deleted ones included.
	pods map[types.UID]key
	// profiles are the names of all profiles that ever existed.
	profiles map[string]bool
	// specs are the specs of the revisions of profiles, by name of the ControllerRevision.
	specs map[string]*v1alpha1.SchedulingProfile
}

func newTimeline(in Input) *timeline {
	t := &timeline{
		Input: in, versions: map[key][]*history.Change{}, pods: map[types.UID]key{}, profiles: map[string]bool{},
		specs: map[string]*v1alpha1.SchedulingProfile{},
	}
	for i := range in.History.Changes {
		change := &in.History.Changes[i]
		k := keyOf(change.Object)
		t.versions[k] = append(t.versions[k], change)
		switch o := change.Object.(type) {
		case *corev1.Pod:
			t.pods[o.UID] = k
		case *v1alpha1.SchedulingProfile:
			t.profiles[o.Name] = true
		case *appsv1.ControllerRevision:
			if o.Labels[v1alpha1.LabelProfile] == "" {
				continue
			}
			if p, err := v1alpha1.DecodeProfile(o.Data.Raw); err == nil {
				t.specs[o.Name] = p
			}
		}
	}
	return t
}

// at returns the version of an object at a revision; nil where it does not exist then.
func (t *timeline) at(k key, revision int64) *history.Change {
	all := t.versions[k]
	n := sort.Search(len(all), func(i int) bool { return all[i].Revision > revision })
	if n == 0 || all[n-1].Deleted {
		return nil
	}
	return all[n-1]
}

// between returns the versions of an object that it had from one revision to another, both
// included, the newest first.
func (t *timeline) between(k key, from, to int64) (found []*history.Change) {
	for _, change := range slices.Backward(t.versions[k]) {
		if change.Revision > to {
			continue
		}
		if !change.Deleted {
			found = append(found, change)
		}
		if change.Revision <= from {
			break
		}
	}
	return found
}

// keysOf returns the keys of all objects of a kind, sorted.
func (t *timeline) keysOf(kind string) (keys []key) {
	for k := range t.versions {
		if k.kind == kind {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// last returns the object's last version; nil where it does not exist at the end.
func last[T client.Object](t *timeline, k key) (object T) {
	if change := t.at(k, t.History.Last); change != nil {
		object, _ = change.Object.(T)
	}
	return object
}

// existing returns the objects of a kind that exist at the end, by name.
func existing[T client.Object](t *timeline, kind string) (all []T) {
	for _, k := range t.keysOf(kind) {
		if change := t.at(k, t.History.Last); change != nil {
			all = append(all, change.Object.(T))
		}
	}
	return all
}

// ours reports whether a pod is one that Berth schedules.
func (t *timeline) ours(pod *corev1.Pod) bool { return t.profiles[pod.Spec.SchedulerName] }

// decision is the annotation of a bound pod.
type decision struct {
	Profile    string `json:"profile"`
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"`
	Epoch      int64  `json:"epoch"`
	Node       string `json:"node"`
	Evaluated  int    `json:"evaluated"`
	Feasible   int    `json:"feasible"`
	Attempts   int    `json:"attempts"`
	Walk       struct {
		Nodes int64 `json:"nodes"`
		Pods  int64 `json:"pods"`
	} `json:"walk"`
	Top []struct {
		Node string `json:"node"`
	} `json:"top"`
}

// readDecision returns the annotation of a pod; known is false where it has none.
func readDecision(pod *corev1.Pod) (d decision, known bool, err error) {
	text, known := pod.Annotations[v1alpha1.AnnotationDecision]
	if !known {
		return d, false, nil
	}
	return d, true, json.Unmarshal([]byte(text), &d)
}

// specOf returns the spec of a profile's revision by its hash; nil where it is not known.
func (t *timeline) specOf(profile, hash string) *v1alpha1.SchedulingProfile {
	return t.specs[profile+"-"+hash]
}

// usesResources reports whether a pod uses resources of its node.
func usesResources(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// scheduledCondition returns the condition PodScheduled; nil where the pod has none.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
