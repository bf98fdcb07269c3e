// Package coscheduling binds the pods of a group together or not at all. It is a plugin
// for kube-scheduler 1.37: it uses only the published contract.
package coscheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// Name is the name of the plugin.
	Name = "Coscheduling"
	// GroupLabel is the label with the group of a pod, MembersAnnotation the annotation
	// with the number of pods that the group needs.
	GroupLabel        = "coscheduling.example.com/group"
	MembersAnnotation = "coscheduling.example.com/members"
)

// Args are the plugin's arguments.
type Args struct {
	metav1.TypeMeta `json:",inline"`
	// PermitSeconds is how long a pod waits for its group; 60 if unset.
	PermitSeconds int64 `json:"permitSeconds,omitempty"`
}

// DeepCopyObject makes Args a runtime.Object.
func (a *Args) DeepCopyObject() runtime.Object {
	c := *a
	return &c
}

// Default sets the defaults.
func Default(a *Args) {
	if a.PermitSeconds == 0 {
		a.PermitSeconds = 60
	}
}

// Plugin is an instance of the plugin.
type Plugin struct {
	handle        fwk.Handle
	permitTimeout time.Duration

	mu sync.Mutex
	// podsByGroup holds all pods with a group that are in the informer.
	podsByGroup map[string]map[types.UID]*v1.Pod
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PostBindPlugin    = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
)

// New builds the plugin. It is a factory as kube-scheduler registers them.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decode(obj)
	if err != nil {
		return nil, err
	}
	p := &Plugin{handle: handle, permitTimeout: time.Duration(args.PermitSeconds) * time.Second, podsByGroup: map[string]map[types.UID]*v1.Pod{}}
	_, err = handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.onUpdate(ctx, obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { p.onUpdate(ctx, obj.(*v1.Pod)) },
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				p.onDelete(pod)
			}
		},
	})
	return p, err
}

// decode reads arguments that are typed, as Berth passes them, or raw, as
// kube-scheduler passes them.
func decode(obj runtime.Object) (*Args, error) {
	args := &Args{}
	switch given := obj.(type) {
	case nil:
	case *Args:
		args = given.DeepCopyObject().(*Args)
	case *runtime.Unknown:
		if err := json.Unmarshal(given.Raw, args); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
	default:
		return nil, fmt.Errorf("the arguments are a %T, want *coscheduling.Args", obj)
	}
	Default(args)
	if args.PermitSeconds < 0 {
		return nil, fmt.Errorf("permitSeconds: must not be negative, is %d", args.PermitSeconds)
	}
	return args, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// groupOf returns the group of a pod and the number of pods that it needs; "" without a
// group.
func groupOf(pod *v1.Pod) (group string, members int) {
	name := pod.Labels[GroupLabel]
	members, err := strconv.Atoi(pod.Annotations[MembersAnnotation])
	if name == "" || err != nil {
		return "", 0
	}
	return pod.Namespace + "/" + name, members
}

// onUpdate stores a pod. If it completes a group it activates the pods of the group.
func (p *Plugin) onUpdate(ctx context.Context, pod *v1.Pod) {
	group, members := groupOf(pod)
	if group == "" {
		return
	}
	p.mu.Lock()
	if p.podsByGroup[group] == nil {
		p.podsByGroup[group] = map[types.UID]*v1.Pod{}
	}
	_, known := p.podsByGroup[group][pod.UID]
	p.podsByGroup[group][pod.UID] = pod
	siblings := map[string]*v1.Pod{}
	if !known && len(p.podsByGroup[group]) >= members {
		for _, s := range p.podsByGroup[group] {
			siblings[s.Namespace+"/"+s.Name] = s
		}
	}
	p.mu.Unlock()
	if len(siblings) > 0 {
		p.handle.Activate(klog.FromContext(ctx), siblings)
	}
}

func (p *Plugin) onDelete(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if group, _ := groupOf(pod); group != "" {
		delete(p.podsByGroup[group], pod.UID)
	}
}

// countMembers returns the number of pods in a group, and how many of them have a node.
func (p *Plugin) countMembers(group string) (all, assigned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range p.podsByGroup[group] {
		if pod.Spec.NodeName != "" {
			assigned++
		}
	}
	return len(p.podsByGroup[group]), assigned
}

// unassignedPods returns the pods of a group that have no node, without the one with this
// UID, by namespace and name.
func (p *Plugin) unassignedPods(group string, without types.UID) map[string]*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	pods := map[string]*v1.Pod{}
	for uid, pod := range p.podsByGroup[group] {
		if uid != without && pod.Spec.NodeName == "" {
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return pods
}

// preFilterStateKey is the key of the state that PreFilter writes and Permit reads.
const preFilterStateKey fwk.StateKey = Name

// preFilterState holds the group of the pod.
type preFilterState struct {
	group   string
	members int
}

// Clone returns a copy.
func (m *preFilterState) Clone() fwk.StateData {
	c := *m
	return &c
}

// Less orders pods by priority, and pods of equal priority by their time in the queue.
func (*Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// EventsToRegister requeues the pods of a group when one of its pods is added, deleted
// or bound.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			ownGroup, _ := groupOf(pod)
			for _, obj := range []any{before, after} {
				other, ok := obj.(*v1.Pod)
				if !ok || other == nil {
					continue
				}
				if group, _ := groupOf(other); group == ownGroup {
					return fwk.Queue, nil
				}
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// PreFilter rejects a pod whose group is not complete.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	group, members := groupOf(pod)
	if group == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if known, _ := p.countMembers(group); known < members {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("%d of %d members exist", known, members))
	}
	state.Write(preFilterStateKey, &preFilterState{group, members})
	return nil, nil
}

// PreFilterExtensions returns nil.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter rejects the waiting pods of the group of a pod that fits on no node.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	group, _ := groupOf(pod)
	if group != "" {
		p.rejectWaitingPods(group, pod.Name+" fits on no node")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve does nothing.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve rejects the waiting pods of the group of a pod that was not bound.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if m, err := state.Read(preFilterStateKey); err == nil {
		p.rejectWaitingPods(m.(*preFilterState).group, pod.Name+" was rejected")
	}
}

// Permit makes a pod wait until the last pod of its group arrives, and then allows all
// of them. Meanwhile it activates the others.
func (p *Plugin) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, 0
	}
	m := data.(*preFilterState)
	_, known := p.countMembers(m.group)
	var waiting []fwk.WaitingPod
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if group, _ := groupOf(w.GetPod()); group == m.group && p.handle.GetWaitingPod(w.GetPod().UID) != nil {
			waiting = append(waiting, w)
		}
	})
	if known+len(waiting)+1 < m.members {
		// What made this pod fit may be no event of the plugin's: its siblings are tried too.
		p.handle.Activate(klog.FromContext(ctx), p.unassignedPods(m.group, pod.UID))
		return fwk.NewStatus(fwk.Wait), p.permitTimeout
	}
	for _, w := range waiting {
		w.Allow(Name)
	}
	return nil, 0
}

// PostBind records an Event that says how many other pods were bound.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if data, err := state.Read(preFilterStateKey); err == nil {
		p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, "BoundTogether", "Binding", "with %d others, on %s", data.(*preFilterState).members-1, node)
	}
}

func (p *Plugin) rejectWaitingPods(group, why string) {
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if other, _ := groupOf(w.GetPod()); other == group {
			w.Reject(Name, why)
		}
	})
}
