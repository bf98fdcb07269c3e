package framework

import (
	"context"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// A Framework is the Handle of its own plugins.
var (
	_ PreemptorHandle = &Framework{}
	_ VolumesHandle   = &Framework{}
	_ DevicesHandle   = &Framework{}
	_ ClockHandle     = &Framework{}
)

// SnapshotSharedLister returns the snapshot of the last UpdateSnapshot. While a
// call of an out-of-tree plugin is abandoned, the objects that it reads do not
// change.
func (f *Framework) SnapshotSharedLister() fwk.SharedLister {
	if f.PinnedLister != nil {
		return f.PinnedLister
	}
	return f.Lister
}

// PinnedLister is a SharedLister that does not change while abandoned calls may
// read it.
type PinnedLister interface {
	fwk.SharedLister
	// AddAbandonedCalls adds by, which may be negative, to the number of
	// abandoned calls that have not returned.
	AddAbandonedCalls(by int32)
}

// AddAbandonedCalls adds by, which may be negative, to the number of abandoned
// plugin calls that have not returned.
func (f *Framework) AddAbandonedCalls(by int32) {
	if f.PinnedLister != nil {
		f.PinnedLister.AddAbandonedCalls(by)
	}
}

// inTreeHandle is the Handle of in-tree plugins, whose calls are never
// abandoned.
type inTreeHandle struct{ *Framework }

// SnapshotSharedLister returns the snapshot of the last UpdateSnapshot.
func (i inTreeHandle) SnapshotSharedLister() fwk.SharedLister { return i.Lister }

// MutableSnapshotSharedLister returns SnapshotSharedLister. Only PodGroupPostFilter may start
// mutations; what it does not end is ended after it.
func (f *Framework) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	if mutable, ok := f.SnapshotSharedLister().(MutableSnapshot); ok {
		return guardedSnapshot{mutable, f}
	}
	return immutableSnapshot{f.SnapshotSharedLister()}
}

// MutableSnapshot is a snapshot whose session of mutations can be suspended.
type MutableSnapshot interface {
	fwk.MutableSnapshotSharedLister
	// SuspendMutations ends the session while update runs, which may change the snapshot.
	SuspendMutations(update func())
	// RemovedPod returns the present version of a pod that the session has removed from a node; nil
	// where there is none, since the pod has left the node while the session was suspended.
	RemovedPod(pod types.UID, node string) fwk.PodInfo
}

// guardedSnapshot refuses mutations outside of PodGroupPostFilter.
type guardedSnapshot struct {
	MutableSnapshot
	framework *Framework
}

// StartMutations begins a session of mutations.
func (g guardedSnapshot) StartMutations() error {
	if !g.framework.inPodGroupPostFilter {
		return errImmutableSnapshot
	}
	err := g.MutableSnapshot.StartMutations()
	if err == nil {
		g.framework.endMutations = g.MutableSnapshot.EndMutations
	}
	return err
}

// EndMutations ends the session.
func (g guardedSnapshot) EndMutations() error {
	g.framework.endMutations = nil
	return g.MutableSnapshot.EndMutations()
}

// immutableSnapshot refuses mutations.
type immutableSnapshot struct{ fwk.SharedLister }

var errImmutableSnapshot = errors.New("the snapshot can be changed only in PodGroupPostFilter")

func (immutableSnapshot) StartMutations() error                        { return errImmutableSnapshot }
func (immutableSnapshot) EndMutations() error                          { return errImmutableSnapshot }
func (immutableSnapshot) AddPod(fwk.PodInfo, string) error             { return errImmutableSnapshot }
func (immutableSnapshot) RemovePod(klog.Logger, *v1.Pod, string) error { return errImmutableSnapshot }

// IterateOverWaitingPods calls callback for every pod that waits at Permit.
func (f *Framework) IterateOverWaitingPods(callback func(fwk.WaitingPod)) {
	f.WaitingPods.Each(callback)
}

// GetWaitingPod returns a pod that waits at Permit, or nil.
func (f *Framework) GetWaitingPod(uid types.UID) fwk.WaitingPod { return f.WaitingPods.Get(uid) }

// RejectWaitingPod rejects a pod that waits at Permit, and reports whether
// there was one.
func (f *Framework) RejectWaitingPod(uid types.UID) bool {
	p := f.WaitingPods.Get(uid)
	return p != nil && p.Reject("", "removed")
}

// PermitHandle is a Handle that knows under which Generation a pod waits at Permit.
type PermitHandle interface {
	fwk.Handle
	// LeavesPermit reports whether a pod at Permit gives its node back. If it waits for
	// plugins of another Generation, LeavesPermit ends that with an error of this plugin, so
	// that the pod is tried again at once.
	LeavesPermit(uid types.UID, plugin, message string) bool
}

var _ PermitHandle = &Framework{}

// LeavesPermit implements PermitHandle.
func (f *Framework) LeavesPermit(uid types.UID, plugin, message string) bool {
	p := f.WaitingPods.find(uid)
	return p != nil && (p.framework != f && p.Preempt(plugin, message) || p.leaves())
}

// AddPodInPreBind records that a pod's PreBind began, and how to cancel it.
func (f *Framework) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	f.PodsInPreBind.add(uid, cancel)
}

// GetPodInPreBind returns a pod whose PreBind runs, or nil.
func (f *Framework) GetPodInPreBind(uid types.UID) fwk.PodInPreBind { return f.PodsInPreBind.get(uid) }

// RemovePodInPreBind records that a pod's PreBind has ended.
func (f *Framework) RemovePodInPreBind(uid types.UID) { f.PodsInPreBind.remove(uid) }

// Preemptor returns the Preemptor; may be nil.
func (f *Framework) Preemptor() Preemptor { return f.Host.Preemptor }

// Volumes returns the assumed volumes and claims; may be nil.
func (f *Framework) Volumes() Volumes { return f.Host.Volumes }

// Devices returns the claims and devices; may be nil.
func (f *Framework) Devices() Devices { return f.Host.Devices }

// SchedulerClock returns the clock of the scheduler.
func (f *Framework) SchedulerClock() clock.PassiveClock {
	if f.Host.Clock == nil {
		return clock.RealClock{}
	}
	return f.Host.Clock
}

// ClientSet returns a client with Berth's permissions.
func (f *Framework) ClientSet() clientset.Interface { return f.Client }

// KubeConfig returns the configuration of ClientSet.
func (f *Framework) KubeConfig() *restclient.Config { return f.Host.KubeConfig }

// EventRecorder returns the recorder of the profile's events.
func (f *Framework) EventRecorder() events.EventRecorderLogger { return f.Recorder }

// SharedInformerFactory returns the informers of the objects that scheduling
// depends on.
func (f *Framework) SharedInformerFactory() informers.SharedInformerFactory { return f.Informers }

// SharedDRAManager returns Devices; nil if there are none.
func (f *Framework) SharedDRAManager() fwk.SharedDRAManager {
	if f.Host.Devices == nil {
		return nil
	}
	return f.Host.Devices
}

// RequestsDevices reports whether a pod requests an extended resource that a DeviceClass
// backs.
func (f *Framework) RequestsDevices(pod *v1.Pod) bool {
	return f.Host.Devices != nil && RequestsDevices(pod, f.Host.Devices.DeviceClassResolver())
}

// SharedCSIManager lists the CSINodes.
func (f *Framework) SharedCSIManager() fwk.CSIManager {
	return csiNodeLister{f.Informers.Storage().V1().CSINodes().Lister()}
}

// csiNodeLister is a CSIManager and CSINodeLister over an informer's lister.
type csiNodeLister struct{ lister storagelisters.CSINodeLister }

func (c csiNodeLister) CSINodes() fwk.CSINodeLister { return c }

func (c csiNodeLister) List() ([]*storagev1.CSINode, error) {
	return c.lister.List(labels.Everything())
}

func (c csiNodeLister) Get(name string) (*storagev1.CSINode, error) { return c.lister.Get(name) }

// APIDispatcher is nil, as the contract requires while the feature gate
// SchedulerAsyncAPICalls is off, as in 1.37.
func (f *Framework) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher is nil, like APIDispatcher.
func (f *Framework) APICacher() fwk.APICacher { return nil }

// Parallelizer runs pieces of work one after the other, so that decisions do
// not depend on the timing of goroutines.
func (f *Framework) Parallelizer() fwk.Parallelizer { return sequential{} }

type sequential struct{}

func (sequential) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	for i := 0; i < pieces && ctx.Err() == nil; i++ {
		work(i)
	}
}

func (f *Framework) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	f.Nominator.AddNominatedPod(logger, pod, info)
}

func (f *Framework) DeleteNominatedPodIfExists(pod *v1.Pod) {
	f.Nominator.DeleteNominatedPodIfExists(pod)
}

func (f *Framework) UpdateNominatedPod(logger klog.Logger, oldPod *v1.Pod, newPod fwk.PodInfo) {
	f.Nominator.UpdateNominatedPod(logger, oldPod, newPod)
}

func (f *Framework) NominatedPodsForNode(node string) []fwk.PodInfo {
	return f.Nominator.NominatedPodsForNode(node)
}

// Activate moves pods to the active queue without backoff.
func (f *Framework) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	f.Activator.Activate(logger, pods)
}

// SignPod returns a signature that is equal for pods which no plugin of the
// profile distinguishes, nil if a plugin does not sign. Berth itself uses
// podclass.KeyBuilder instead.
func (f *Framework) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	fragments := map[string]any{"v1.Pod.Spec.SchedulerName": pod.Spec.SchedulerName}
	for _, plugin := range f.plugins {
		if !AffectsPlacement(plugin) {
			continue
		}
		signer, ok := plugin.(fwk.SignPlugin)
		if !ok {
			return nil
		}
		var signed []fwk.SignFragment
		s := f.callRecovered(nil, nil, plugin.Name(), "SignPod", func() (s *fwk.Status) {
			signed, s = signer.SignPod(ctx, pod)
			return s
		})
		if !s.IsSuccess() {
			return nil
		}
		for _, fragment := range signed {
			fragments[fragment.Key] = fragment.Value
		}
	}
	signature, err := json.Marshal(fragments) // sorts the keys
	if err != nil {
		return nil
	}
	return signature
}

// AffectsPlacement reports whether a plugin can influence the choice of node.
func AffectsPlacement(plugin fwk.Plugin) bool {
	switch plugin.(type) {
	case fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin:
		return true
	}
	return false
}
