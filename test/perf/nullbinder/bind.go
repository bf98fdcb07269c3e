package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// binder binds pods to nodes in turn.
type binder struct {
	client kubernetes.Interface
	events bool
	name   string
	nodes  []string
	next   atomic.Int64
}

// work binds what it is handed until ctx ends; its error is the first failure.
func (b *binder) work(ctx context.Context, pods <-chan *corev1.Pod) error {
	for {
		select {
		case pod := <-pods:
			if err := b.bind(ctx, pod); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *binder) bind(ctx context.Context, pod *corev1.Pod) error {
	node := b.nodes[int(b.next.Add(1)-1)%len(b.nodes)]
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("binding %s/%s to %s: %w", pod.Namespace, pod.Name, node, err)
	}
	if !b.events {
		return nil
	}
	now := metav1.NowMicro()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano())},
		EventTime:           now,
		ReportingController: b.name, ReportingInstance: b.name + "-null",
		Action: "Binding", Reason: "Scheduled", Type: corev1.EventTypeNormal,
		Note:      fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node),
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if _, err := b.client.EventsV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("writing the event of %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
