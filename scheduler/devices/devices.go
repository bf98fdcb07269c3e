// Package devices holds all ResourceClaims, ResourceSlices and DeviceClasses, the
// allocations that have not been written yet included, and makes every write to claims.
// It outlives the Generations of profiles: what was allocated under one Generation stays
// allocated under the next.
package devices

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are the dependencies of Devices.
type Options struct {
	// Client writes claims.
	Client clientset.Interface
	Clock  clock.WithDelayedExecution
	// Wait is how AwaitClaims and retries wait; nil means framework.Block.
	Wait framework.WaitFunc
	// Go runs work in the background; nil means framework.Goroutine.
	Go func(work func())
	// Queue gets the events of claims, slices and classes. May be nil. No lock is held
	// during the call.
	Queue EventQueue
	// NoExtendedResources says that no DeviceClass backs an extended resource.
	NoExtendedResources bool
	// Changed is called after each change of what Devices returns, and before the event
	// of that change, so that nothing computed before the change is used after it. May be
	// nil. No lock is held during the call.
	Changed func()
	Log     logr.Logger
}

// EventQueue requeues the pods that an event concerns.
type EventQueue interface {
	Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool)
}

// Devices holds all claims, slices and classes. It is safe for concurrent use.
type Devices struct {
	options Options
	claims  *claimCache
	slices  *sliceCache
	classes *classLister
	waiters waiters
	events  events
	// allocatorCalls counts the allocations that were asked for.
	allocatorCalls atomic.Uint64
}

var _ framework.Devices = &Devices{}

// New returns Devices without objects until UseInformers is called.
func New(o Options) *Devices {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	d := &Devices{options: o}
	d.claims = newClaimCache(d)
	d.slices = newSliceCache(d)
	d.classes = newClassLister(o.Log)
	return d
}

// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims;resourceslices;deviceclasses;devicetaintrules,verbs=list;watch

// Informers are the informers that Devices reads. Objects are shared with their stores,
// not copied.
type Informers struct {
	Claims, Slices, Classes toolscache.SharedIndexInformer
	// Rules is nil where the API server does not serve DeviceTaintRules of
	// resource.k8s.io/v1: then no rule taints a device.
	Rules toolscache.SharedIndexInformer
}

// UseInformers makes d read these informers. It may be called once. The result says when
// the handlers have processed the initial lists.
func (d *Devices) UseInformers(i Informers) ([]toolscache.InformerSynced, error) {
	if i.Claims == nil || i.Slices == nil || i.Classes == nil {
		return nil, errors.New("informers: want those of claims, slices and classes")
	}
	synced, slicesErr := d.slices.useInformers(i.Slices, i.Rules)
	classes, classesErr := d.classes.useInformer(i.Classes, d.classHandler())
	claims, claimsErr := d.claims.useInformer(i.Claims)
	if err := errors.Join(slicesErr, classesErr, claimsErr); err != nil {
		return nil, err
	}
	return append(synced, classes.HasSynced, claims.HasSynced), nil
}

// classHandler passes the events of classes to the queue.
func (d *Devices) classHandler() toolscache.ResourceEventHandler {
	notify := func(before, after any) {
		d.addEvent(fwk.DeviceClass, before, after)
		d.events.deliver()
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { notify(nil, obj) }, UpdateFunc: notify,
		// The resolver has replaced an unknown final state by the last known one.
		DeleteFunc: func(obj any) { notify(obj, nil) },
	}
}

// ResourceClaims returns the claims and the allocated devices.
func (d *Devices) ResourceClaims() fwk.ResourceClaimTracker { return d.claims }

// ResourceSlices returns the slices, with the taints of DeviceTaintRules.
func (d *Devices) ResourceSlices() fwk.ResourceSliceLister { return d.slices }

// DeviceClasses returns the classes.
func (d *Devices) DeviceClasses() fwk.DeviceClassLister { return d.classes }

// DeviceClassResolver returns the mapping of extended resources to classes.
func (d *Devices) DeviceClassResolver() fwk.DeviceClassResolver {
	if d.options.NoExtendedResources {
		return noExtendedResources{}
	}
	return d.classes.resolver
}

// claimsCreated counts what CreateClaim does, with the labels of kube-scheduler: the
// claims have no admin access and belong to pods.
var claimsCreated = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "dynamic_resource_allocation_resourceclaim_creates_total",
	Help: "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API group and kind (either Pod or scheduling.k8s.io/PodGroup)",
}, []string{"status", "admin_access", "owner_api_group", "owner_api_kind"})

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{claimsCreated} }
