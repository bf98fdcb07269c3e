package queue

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Plugins made for kube-scheduler dereference the timestamp without a check.
func TestNewQueuedEntityHasAnInitialAttemptTimestamp(t *testing.T) {
	since := time.Unix(1000, 0)
	entity := NewQueuedEntity(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits"}}, since)
	if at := entity.GetInitialAttemptTimestamp(); at == nil || !at.Equal(since) {
		t.Errorf("first attempt at %v, want %v", at, since)
	}
}

func TestAQueuedPodHasGetPodInfo(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Spec: v1.PodSpec{Priority: new(int32(1))}}
	entity := newQueuedPod(pod, time.Unix(1000, 0))
	info, ok := fwk.QueuedEntityInfo(entity).(interface{ GetPodInfo() fwk.PodInfo })
	if !ok {
		t.Fatal("the entity has no GetPodInfo, which kube-scheduler's entities have")
	}
	if got := info.GetPodInfo(); got.GetPod() != pod || info.GetPodInfo() != got {
		t.Errorf("got %v, want the PodInfo of the pod, computed once", got.GetPod())
	}
	newer := pod.DeepCopy()
	entity.pod = newer
	if got := info.GetPodInfo().GetPod(); got != newer {
		t.Errorf("got %p after an update, want the newer pod %p", got, newer)
	}
}
