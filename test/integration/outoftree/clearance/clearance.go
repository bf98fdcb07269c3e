// Package clearance rejects pods until a custom resource of the name in their label
// grants them clearance. It is written for kube-scheduler 1.37 and uses only the
// published contract: it gets its arguments as runtime.Unknown, runs its own informer,
// and registers events of the custom resource as plural.version.group.
package clearance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// Name is the name of the plugin.
	Name = "Clearance"
	// ClearanceLabel is the label of a pod with the name of the clearance that it
	// needs, in its namespace.
	ClearanceLabel = "example.com/needs"
	// DeferredLabel is the label that keeps a pod out of the active queue.
	DeferredLabel = "example.com/later"
)

// Resource is the custom resource.
var Resource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "clearances"}

// args are the plugin's arguments.
type args struct {
	// Field is the field of a clearance's spec that must be true.
	Field string `json:"field"`
}

// Plugin is an instance of the plugin.
type Plugin struct {
	handle fwk.Handle
	field  string
	cancel context.CancelFunc

	mu      sync.Mutex
	granted map[string]bool
	// waiting are the rejected pods by clearance.
	waiting map[string]map[string]*v1.Pod
}

var (
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
)

// New builds the plugin. It is a factory as kube-scheduler registers them.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	p := &Plugin{handle: handle, granted: map[string]bool{}, waiting: map[string]map[string]*v1.Pod{}}
	parsed := args{Field: "granted"}
	switch raw := obj.(type) {
	case nil:
	case *runtime.Unknown:
		if err := json.Unmarshal(raw.Raw, &parsed); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
	default:
		return nil, fmt.Errorf("the arguments are a %T, want *runtime.Unknown", obj)
	}
	if p.field = parsed.Field; p.field == "" {
		return nil, errors.New("field: must not be empty")
	}
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	ctx, p.cancel = context.WithCancel(ctx)
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(Resource).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.onUpdate, UpdateFunc: func(_, obj any) { p.onUpdate(obj) }, DeleteFunc: p.onDelete,
	}); err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return p, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Close stops the plugin's informer.
func (p *Plugin) Close() error {
	p.cancel()
	return nil
}

// onUpdate handles events of the plugin's own informer, which is independent of the
// scheduler's. The scheduler may have called the queueing hints long before.
func (p *Plugin) onUpdate(obj any) {
	if clearance, ok := obj.(*unstructured.Unstructured); ok {
		if pods := p.recordClearance(clearance); len(pods) > 0 {
			p.handle.Activate(klog.Background(), pods)
		}
	}
}

// recordClearance records whether a clearance is granted, and returns the pods that
// were rejected without it.
func (p *Plugin) recordClearance(clearance *unstructured.Unstructured) map[string]*v1.Pod {
	granted, _, _ := unstructured.NestedBool(clearance.Object, "spec", p.field)
	key := clearance.GetNamespace() + "/" + clearance.GetName()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.granted[key] = granted; !granted {
		return nil
	}
	refused := p.waiting[key]
	delete(p.waiting, key)
	return refused
}

func (p *Plugin) onDelete(obj any) {
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tomb.Obj
	}
	if clearance, ok := obj.(*unstructured.Unstructured); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.granted, clearance.GetNamespace()+"/"+clearance.GetName())
	}
}

// isCleared reports whether a pod has its clearance. If not it adds the pod to waiting.
func (p *Plugin) isCleared(pod *v1.Pod) bool {
	key := pod.Namespace + "/" + pod.Labels[ClearanceLabel]
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod.Labels[ClearanceLabel] == "" || p.granted[key] {
		return true
	}
	if p.waiting[key] == nil {
		p.waiting[key] = map[string]*v1.Pod{}
	}
	p.waiting[key][pod.Namespace+"/"+pod.Name] = pod
	return false
}

// PreEnqueue rejects pods with DeferredLabel.
func (*Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if _, later := pod.Labels[DeferredLabel]; later {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is deferred")
	}
	return nil
}

// PreFilter rejects a pod without its clearance.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.isCleared(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "clearance "+pod.Labels[ClearanceLabel]+" is not granted")
	}
	return nil, nil
}

// PreFilterExtensions returns nil.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister registers clearances, and label changes of deferred pods.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	clearances := fwk.EventResource(Resource.Resource + "." + Resource.Version + "." + Resource.Group)
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: clearances, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.isSchedulableAfterClearanceChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}},
	}, nil
}

// isSchedulableAfterClearanceChange requeues the pods that need the clearance once it
// is granted. The plugin's own informer may get the event later than the scheduler's.
func (p *Plugin) isSchedulableAfterClearanceChange(_ klog.Logger, pod *v1.Pod, _, after any) (fwk.QueueingHint, error) {
	clearance, ok := after.(*unstructured.Unstructured)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event is about a %T, want an object of a custom resource", after)
	}
	if clearance.GetNamespace() != pod.Namespace || clearance.GetName() != pod.Labels[ClearanceLabel] {
		return fwk.QueueSkip, nil
	}
	p.recordClearance(clearance)
	if !p.isCleared(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
