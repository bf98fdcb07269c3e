package podgroups

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// FuzzMembership gives two pods any annotations and labels that name a group. Each pod is in
// one group at most, and Validate agrees with the group that the Store makes of them: the
// group has an error if the annotation of a pod is invalid or the two differ, and a number of
// at least one pod that are scheduled together.
func FuzzMembership(f *testing.F) {
	f.Add("train", "2", "", "", "", "train", "2")
	f.Add("train", "-1", "gang", "queue", "3", "train", "1e3")
	f.Add("", "", "", "queue", "2147483648", "", "2")
	f.Add("", "", "", "queue", " 2", "train", "")
	f.Add("g", "+2", "", "", "", "g", "02")
	f.Fuzz(func(t *testing.T, group, minCount, coscheduling, kueue, total, otherGroup, otherMinCount string) {
		pod := fixture.Pod("a").Obj()
		pod.Annotations = withoutEmpty(map[string]string{v1alpha1.AnnotationPodGroup: group, v1alpha1.AnnotationPodGroupMinCount: minCount, kueueTotalCountAnnotation: total})
		pod.Labels = withoutEmpty(map[string]string{coschedulingLabel: coscheduling, kueueLabel: kueue})
		other := fixture.Pod("b").Obj()
		other.Annotations = withoutEmpty(map[string]string{v1alpha1.AnnotationPodGroup: otherGroup, v1alpha1.AnnotationPodGroupMinCount: otherMinCount})

		key, named := KeyOf(pod)
		if named != (group+coscheduling+kueue != "") {
			t.Fatalf("in a group: %t, of annotations %v and labels %v", named, pod.Annotations, pod.Labels)
		}
		err := Validate(pod)
		if err != nil && !strings.HasPrefix(err.Error(), "metadata.annotations[") {
			t.Fatalf("the error names no annotation: %v", err)
		}
		if !named {
			if err != nil {
				t.Fatalf("a pod without a group: %v", err)
			}
			return
		}
		store := NewStore()
		store.SetPod(pod)
		store.SetPod(other)
		checkGroup(t, store.Group(key), []*v1.Pod{pod, other})
		store.RemovePod(other)
		if g := store.Group(key); (g.Err != nil) != (err != nil) {
			t.Fatalf("Validate returns %v, and the group of the pod alone has %v", err, g.Err)
		}
	})
}

// checkGroup checks a group that pods are in if they name it.
func checkGroup(t *testing.T, g *Group, pods []*v1.Pod) {
	t.Helper()
	members := 0
	for _, pod := range pods {
		if key, named := KeyOf(pod); !named || key != g.Key {
			continue
		}
		members++
		if err := Validate(pod); err != nil && g.Err == nil {
			t.Fatalf("pod %s: %v, and the group has no error", pod.Name, err)
		}
	}
	if g.All != members || len(g.Unscheduled) != members {
		t.Fatalf("the group has %d pods, %d of them unscheduled, want %d", g.All, len(g.Unscheduled), members)
	}
	if n := g.MinCount(); n < 1 || n > math.MaxInt32 {
		t.Fatalf("%d pods are scheduled together", n)
	}
}

func withoutEmpty(all map[string]string) map[string]string {
	for key, value := range all {
		if value == "" {
			delete(all, key)
		}
	}
	return all
}

// FuzzCoscheduling converts any JSON as a PodGroup of the coscheduling plugin. The number of
// pods is the one that it says, within the bounds of the field.
func FuzzCoscheduling(f *testing.F) {
	for _, text := range []string{
		`{"metadata":{"name":"g","namespace":"default"},"spec":{"minMember":3}}`, `{"spec":{"minMember":-1}}`, `{"spec":{"minMember":"3"}}`,
		`{"spec":[],"metadata":7}`, `{"spec":{"minMember":9223372036854775807}}`, `{"metadata":{"name":1,"uid":{}},"spec":null}`, `{"spec":{"minMember":1.5}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		object := &unstructured.Unstructured{}
		if json.Unmarshal(text, &object.Object) != nil || object.Object == nil {
			return
		}
		// As the API server sends them, whole numbers are int64.
		if spec, ok := object.Object["spec"].(map[string]any); ok {
			if n, ok := spec["minMember"].(float64); ok && n == math.Trunc(n) && math.Abs(n) < 1<<62 {
				spec["minMember"] = int64(n)
			}
		}
		podGroup := FromCoscheduling(object)
		if podGroup.Name != object.GetName() || podGroup.Namespace != object.GetNamespace() {
			t.Fatalf("%s/%s becomes %s/%s", object.GetNamespace(), object.GetName(), podGroup.Namespace, podGroup.Name)
		}
		gang := podGroup.Spec.SchedulingPolicy.Gang
		if gang == nil || gang.MinCount < 1 {
			t.Fatalf("gang %+v of %s", gang, text)
		}
		if n, found, err := unstructured.NestedInt64(object.Object, "spec", "minMember"); err == nil && found && n >= 1 && n <= math.MaxInt32 && int64(gang.MinCount) != n {
			t.Fatalf("%d pods of %s", gang.MinCount, text)
		}
	})
}
