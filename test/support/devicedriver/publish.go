package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// managedBy is the label of the ResourceSlices that this program made, with the value
	// program. It changes and deletes no others.
	managedBy, program = "app.kubernetes.io/managed-by", "devicedriver"
	// removalLimit bounds the removal of the ResourceSlices at the end.
	removalLimit = 30 * time.Second
	// byNode is the index of ResourceSlices by spec.nodeName.
	byNode = "node"
)

// publishOptions say what is published, and for which nodes.
type publishOptions struct {
	driver   string
	devices  []resourceapi.Device
	selector labels.Selector
	// keep leaves the ResourceSlices in the end. once ends when the nodes that exist have
	// theirs, and leaves them.
	keep, once bool
}

func runPublish(ctx context.Context, args []string, out io.Writer) error {
	f, common := newFlags("publish", out)
	selector := f.String("selector", "type=kwok", "the label selector of the nodes")
	keep := f.Bool("keep", false, "leave the ResourceSlices in the end")
	once := f.Bool("once", false, "end when each node that exists has its ResourceSlice, and leave them")
	if err := common.parse(f, args); err != nil {
		return err
	}
	options := publishOptions{driver: common.driver, keep: *keep, once: *once}
	var err error
	if options.selector, err = labels.Parse(*selector); err != nil {
		return fmt.Errorf("--selector %q is invalid: %w", *selector, err)
	}
	if options.devices, err = common.devices.devices(); err != nil {
		return err
	}
	client, err := common.client()
	if err != nil {
		return err
	}
	return publish(ctx, client, options, out)
}

// publish publishes the devices of the nodes until ctx ends, and removes them.
//
// The controller of package resourceslice is for one node, or for slices that no node owns.
// For a thousand nodes it would take a thousand informers, so this is one of its own.
func publish(ctx context.Context, client kubernetes.Interface, options publishOptions, out io.Writer) error {
	p := &publisher{
		publishOptions: options, client: client, out: out,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	defer p.queue.ShutDown()
	running, stop := context.WithCancel(ctx)
	defer stop()
	names, err := p.startInformers(running)
	if err != nil {
		return err
	}
	if options.once {
		var errs []error
		for _, name := range names {
			errs = append(errs, p.sync(ctx, name))
		}
		return errors.Join(errs...)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p.syncNext(running) {
		}
	}()
	<-ctx.Done()
	p.queue.ShutDown()
	<-done
	if options.keep {
		return nil
	}
	// ctx has ended, and the removal is what is left to do.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalLimit)
	defer cancel()
	return p.removeAll(last)
}

// publisher keeps one ResourceSlice for each node. Its queue has names of nodes.
type publisher struct {
	publishOptions
	client kubernetes.Interface
	out    io.Writer
	nodes  corelisters.NodeLister
	slices cache.Indexer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// startInformers starts the informers until ctx ends, and waits until they have synced. It
// returns the names of the nodes, and of those that a ResourceSlice names, in order.
func (p *publisher) startInformers(ctx context.Context) ([]string, error) {
	ofNodes := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = p.selector.String()
	}))
	ofSlices := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = resourceapi.ResourceSliceSelectorDriver + "=" + p.driver
	}))
	nodes, slicesInformer := ofNodes.Core().V1().Nodes(), ofSlices.Resource().V1().ResourceSlices().Informer()
	p.nodes, p.slices = nodes.Lister(), slicesInformer.GetIndexer()
	if err := slicesInformer.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) { return p.nodeOf(object), nil }}); err != nil {
		return nil, err
	}
	enqueue := func(object any) {
		for _, name := range p.nodeOf(object) {
			p.queue.Add(name)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
	}
	for _, informer := range []cache.SharedIndexInformer{nodes.Informer(), slicesInformer} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	for _, factory := range []informers.SharedInformerFactory{ofNodes, ofSlices} {
		factory.Start(ctx.Done())
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return nil, fmt.Errorf("read the objects of %s: %w", kind, context.Cause(ctx))
			}
		}
	}
	names := p.slices.ListIndexFuncValues(byNode)
	all, err := p.nodes.List(labels.Everything())
	for _, node := range all {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// nodeOf returns the name of a node, or of the node that a ResourceSlice of the driver is
// for; nothing for other objects.
func (p *publisher) nodeOf(object any) []string {
	if gone, is := object.(cache.DeletedFinalStateUnknown); is {
		object = gone.Obj
	}
	switch o := object.(type) {
	case *v1.Node:
		return []string{o.Name}
	case *resourceapi.ResourceSlice:
		if o.Spec.Driver == p.driver && o.Spec.NodeName != nil {
			return []string{*o.Spec.NodeName}
		}
	}
	return nil
}

// syncNext syncs the next node of the queue, and returns false when the queue is shut down.
func (p *publisher) syncNext(ctx context.Context) bool {
	name, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	defer p.queue.Done(name)
	err := p.sync(ctx, name)
	switch {
	case err == nil:
		p.queue.Forget(name)
		return true
	case ctx.Err() != nil:
		return true // the queue is shut down as well
	case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
		// The others mean that the cache lags behind, and it will not for long.
		klog.FromContext(ctx).Error(err, "Cannot publish devices", "node", name)
	}
	p.queue.AddRateLimited(name)
	return true
}

// sync creates, updates or deletes the ResourceSlice of a node.
func (p *publisher) sync(ctx context.Context, name string) error {
	objects, err := p.slices.ByIndex(byNode, name)
	if err != nil {
		return err
	}
	var ours *resourceapi.ResourceSlice
	foreign := ""
	for _, object := range objects {
		if slice := object.(*resourceapi.ResourceSlice); slice.Labels[managedBy] == program {
			ours = slice
		} else {
			foreign = slice.Name
		}
	}
	node, err := p.nodes.Get(name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err != nil || node.DeletionTimestamp != nil:
		return p.remove(ctx, ours)
	case foreign != "":
		// Two slices of one pool would make the pool invalid.
		return fmt.Errorf("node %s has the ResourceSlice %s of driver %s, which another program made: use another --driver, or delete it", name, foreign, p.driver)
	}
	return p.apply(ctx, ours, p.sliceFor(node))
}

// apply makes a ResourceSlice as wanted; is is nil while there is none.
func (p *publisher) apply(ctx context.Context, is, want *resourceapi.ResourceSlice) error {
	api := p.client.ResourceV1().ResourceSlices()
	if is == nil {
		if _, err := api.Create(ctx, want, metav1.CreateOptions{}); err != nil {
			return err
		}
		return p.say("node %s has %d devices of %s\n", *want.Spec.NodeName, len(want.Spec.Devices), p.driver)
	}
	next := is.DeepCopy()
	next.OwnerReferences, next.Spec = want.OwnerReferences, want.Spec
	next.Spec.Pool.Generation = is.Spec.Pool.Generation
	if apiequality.Semantic.DeepEqual(next, is) {
		return nil
	}
	if !apiequality.Semantic.DeepEqual(next.Spec, is.Spec) {
		next.Spec.Pool.Generation++
	}
	_, err := api.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// sliceFor returns the ResourceSlice of a node. The node owns it, and is its pool.
func (p *publisher) sliceFor(node *v1.Node) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name + "-" + p.driver,
			Labels:          map[string]string{managedBy: program},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: p.driver, NodeName: &node.Name, Devices: p.devices,
			Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// remove deletes a ResourceSlice; slice may be nil.
func (p *publisher) remove(ctx context.Context, slice *resourceapi.ResourceSlice) error {
	if slice == nil {
		return nil
	}
	preconditions := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}}
	err := p.client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, preconditions)
	if apierrors.IsNotFound(err) {
		return nil // the garbage collector was faster
	} else if err != nil {
		return err
	}
	return p.say("node %s has no devices of %s any more\n", *slice.Spec.NodeName, p.driver)
}

// removeAll deletes every ResourceSlice that this program made for the driver.
func (p *publisher) removeAll(ctx context.Context) error {
	list, err := p.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + program})
	if err != nil {
		return fmt.Errorf("remove the ResourceSlices: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if len(p.nodeOf(&list.Items[i])) > 0 {
			errs = append(errs, p.remove(ctx, &list.Items[i]))
		}
	}
	return errors.Join(errs...)
}

func (p *publisher) say(format string, args ...any) error {
	_, err := fmt.Fprintf(p.out, format, args...)
	return err
}
