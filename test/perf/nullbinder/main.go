// Command nullbinder binds the pods of one schedulerName to the nodes in turn, without a
// decision. Its rate is the most that the API server and the client allow any scheduler on the
// same machine.
//
// With --watch it keeps pods and nodes in informers, as a scheduler must, else it lists them
// once; with --kinds it keeps all other kinds that Berth does, too. With --events it writes one
// Scheduled Event for each pod, as a scheduler does. It ends at SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/berth/test/support/command"
	"github.com/berthdev/berth/test/support/load"
)

// options are the flags.
type options struct {
	kubeconfig    string
	schedulerName string
	workers       int
	watch, events bool
	kinds         bool
}

func main() {
	command.Main("nullbinder", func(ctx context.Context, args []string, _ io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o)
	})
}

func parse(args []string) (options, error) {
	var o options
	f := command.Flags("nullbinder")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig of the API server")
	f.StringVar(&o.schedulerName, "scheduler-name", "", "the spec.schedulerName of the pods to bind")
	f.IntVar(&o.workers, "workers", 32, "number of concurrent binds")
	f.BoolVar(&o.watch, "watch", false, "keep pods and nodes in informers instead of listing them once")
	f.BoolVar(&o.kinds, "kinds", false, "with --watch, also keep the other kinds in informers that Berth keeps")
	f.BoolVar(&o.events, "events", false, "write one Scheduled Event for each pod")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	switch {
	case o.kubeconfig == "":
		return o, errors.New("--kubeconfig: must name a file")
	case o.schedulerName == "":
		return o, errors.New("--scheduler-name: must name the pods' scheduler")
	case o.kinds && !o.watch:
		return o, errors.New("--kinds: must be with --watch")
	case o.workers < 1:
		return o, fmt.Errorf("--workers: must be at least 1, is %d", o.workers)
	}
	return o, nil
}

// run binds until outer ends, or a write fails.
func run(outer context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.DisableCompression = true // as Berth and kube-scheduler: the API server compresses watches, too
	client, err := load.Client(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	find := listed
	if o.watch {
		find = watched
	}
	nodes, pods, err := find(ctx, client, o)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("there are no nodes to bind to")
	}
	b := &binder{client: client, events: o.events, name: o.schedulerName, nodes: nodes}
	for range o.workers {
		go func() { cancel(b.work(ctx, pods)) }()
	}
	<-ctx.Done()
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// binder binds pods to nodes in turn.
type binder struct {
	client kubernetes.Interface
	events bool
	name   string
	nodes  []string
	next   atomic.Int64
}

// work binds pods until ctx ends; its error is the first failure.
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

// queueLength is the number of pods that can wait for a worker before the event handler
// blocks.
const queueLength = 1 << 16

// listed lists nodes and pods once.
func listed(ctx context.Context, client kubernetes.Interface, o options) ([]string, <-chan *corev1.Pod, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=,spec.schedulerName=" + o.schedulerName,
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

// watched finds nodes and pods through informers, also pods that are created later.
func watched(ctx context.Context, client kubernetes.Interface, o options) ([]string, <-chan *corev1.Pod, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	f := &finder{schedulerName: o.schedulerName, seen: map[types.UID]bool{}, found: make(chan *corev1.Pod, queueLength)}
	pods := factory.Core().V1().Pods().Informer()
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.enqueue(ctx, object) },
		UpdateFunc: func(_, object any) { f.enqueue(ctx, object) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watching pods: %w", err)
	}
	nodes := factory.Core().V1().Nodes().Informer()
	synced := []cache.InformerSynced{nodes.HasSynced, handler.HasSynced}
	if o.kinds {
		synced = append(synced, otherKinds(factory)...)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, nil, context.Cause(ctx)
	}
	var all []corev1.Node
	for _, node := range nodes.GetStore().List() {
		all = append(all, *node.(*corev1.Node))
	}
	return names(all), f.found, nil
}

// otherKinds adds informers for the other kinds that Berth keeps: those of the rules in
// config/rbac/role.yaml that every API server of Kubernetes 1.37 serves.
func otherKinds(factory informers.SharedInformerFactory) (synced []cache.InformerSynced) {
	core, storage, devices := factory.Core().V1(), factory.Storage().V1(), factory.Resource().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Namespaces().Informer(), core.Services().Informer(), core.ReplicationControllers().Informer(),
		core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
		factory.Apps().V1().ReplicaSets().Informer(), factory.Apps().V1().StatefulSets().Informer(),
		factory.Policy().V1().PodDisruptionBudgets().Informer(),
		storage.StorageClasses().Informer(), storage.CSINodes().Informer(), storage.CSIDrivers().Informer(),
		storage.CSIStorageCapacities().Informer(), storage.VolumeAttachments().Informer(),
		devices.DeviceClasses().Informer(), devices.ResourceClaims().Informer(), devices.ResourceSlices().Informer(),
	} {
		synced = append(synced, informer.HasSynced)
	}
	return synced
}

// finder passes each pending pod to the workers, once.
type finder struct {
	schedulerName string
	found         chan *corev1.Pod

	mu   sync.Mutex
	seen map[types.UID]bool
}

func (f *finder) enqueue(ctx context.Context, object any) {
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
