package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// waiting is how many pods may wait for a worker before whoever finds them
// waits, too.
const waiting = 1 << 16

// listed finds nodes and pods by asking once.
func listed(ctx context.Context, client kubernetes.Interface, schedulerName string) ([]string, <-chan *corev1.Pod, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=,spec.schedulerName=" + schedulerName,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	found := make(chan *corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		found <- &pods.Items[i]
	}
	return names(nodes.Items), found, nil
}

// watched finds nodes and pods through informers, and new pods as they come.
func watched(ctx context.Context, client kubernetes.Interface, schedulerName string) ([]string, <-chan *corev1.Pod, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	f := &finder{schedulerName: schedulerName, seen: map[types.UID]bool{}, found: make(chan *corev1.Pod, waiting)}
	pods := factory.Core().V1().Pods().Informer()
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.look(ctx, object) },
		UpdateFunc: func(_, object any) { f.look(ctx, object) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watching pods: %w", err)
	}
	nodes := factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, handler.HasSynced) {
		return nil, nil, context.Cause(ctx)
	}
	var all []corev1.Node
	for _, node := range nodes.GetStore().List() {
		all = append(all, *node.(*corev1.Node))
	}
	return names(all), f.found, nil
}

// finder hands each pod that waits to the workers, once.
type finder struct {
	schedulerName string
	found         chan *corev1.Pod

	mu   sync.Mutex
	seen map[types.UID]bool
}

func (f *finder) look(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" || pod.Spec.SchedulerName != f.schedulerName {
		return
	}
	f.mu.Lock()
	known := f.seen[pod.UID]
	f.seen[pod.UID] = true
	f.mu.Unlock()
	if known {
		return
	}
	select {
	case f.found <- pod:
	case <-ctx.Done():
	}
}

func names(nodes []corev1.Node) []string {
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	return names
}
