package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/scheduler/volumes"
)

// hosts implements profile.Hosts. All Hosts share PodsInPreBind and the preemptor.
type hosts struct {
	options     Options
	cache       *cache.Cache
	queue       *queue.Queue
	waitingPods *framework.WaitingPods
	volumes     *volumes.Volumes
	devices     *devices.Devices
	preemptor   framework.Preemptor
	inPreBind   *framework.PodsInPreBind
}

// HostFor returns the Host of a profile's plugins.
func (h *hosts) HostFor(profile string) framework.Host {
	return framework.Host{
		Client: h.options.Client, KubeConfig: h.options.KubeConfig, Informers: h.options.Informers,
		Recorder: h.options.RecorderFor(profile), Lister: h.cache.Snapshot(), PinnedLister: h.cache.PinnedSnapshot(), Nominator: nominator{h.cache.Nominator, h.cache, h.options.Informers.Core().V1().Pods().Lister()},
		Activator: activator{h.queue}, WaitingPods: h.waitingPods, PodsInPreBind: h.inPreBind,
		Preemptor: h.preemptor, Volumes: h.volumes, Devices: h.devices, Clock: h.options.Clock,
		PluginFaults: h.queue, Groups: h.cache.Groups(), Go: h.options.Go, Wait: h.options.Wait,
	}
}

// nominator is what plugins nominate pods with. As in kube-scheduler it ignores a pod that was
// deleted or has a node: nothing would remove such a nomination.
type nominator struct {
	cache.Nominator
	cache *cache.Cache
	pods  corelisters.PodLister
}

// AddNominatedPod does what cache.Nominator.AddNominatedPod does for a pod that is pending.
func (n nominator) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	n.nominate(logger, pod.GetPod(), node)
}

// UpdateNominatedPod does what cache.Nominator.UpdateNominatedPod does for a pod that is pending.
func (n nominator) UpdateNominatedPod(logger klog.Logger, oldPod *v1.Pod, newPod fwk.PodInfo) {
	pod := newPod.GetPod()
	node := pod.Status.NominatedNodeName
	if node == "" && oldPod.Status.NominatedNodeName == "" {
		node = n.NominatedNode(oldPod.UID)
	}
	if oldPod.UID != pod.UID {
		n.DeleteNominatedPodIfExists(oldPod)
	}
	n.nominate(logger, pod, node)
}

// nominate nominates a pod for a node, if the pod is pending. It looks again afterwards: the handler
// of the pod's last event may have run before that.
func (n nominator) nominate(logger klog.Logger, pod *v1.Pod, node string) {
	latest := n.pendingPod(pod)
	if latest == nil {
		n.DeleteNominatedPodIfExists(pod)
		return
	}
	// The PodInfo of a plugin is not kept: the loop would call its methods for the pods of all profiles.
	if info, _ := framework.NewPodInfo(latest); info != nil { // an error is about its affinity
		n.cache.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	}
	if n.pendingPod(pod) == nil {
		n.DeleteNominatedPodIfExists(pod)
	}
}

// pendingPod returns the present version of a pod if it is pending, and nil otherwise.
func (n nominator) pendingPod(pod *v1.Pod) *v1.Pod {
	latest, err := n.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID || latest.Spec.NodeName != "" {
		return nil
	}
	return latest
}

// activator implements framework.Activator on the queue.
type activator struct{ queue *queue.Queue }

func (a activator) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	a.queue.Activate(klog.NewContext(context.Background(), logger), pods)
}

// watchVolumes connects the volume cache to the informers of volumes and claims,
// where the API server serves both.
func watchVolumes(v *volumes.Volumes, factory informers.SharedInformerFactory, storage eventhandlers.Storage) error {
	for _, kind := range storage.Missing() {
		switch kind.(type) {
		case *v1.PersistentVolume, *v1.PersistentVolumeClaim:
			return nil
		}
	}
	core := factory.Core().V1()
	return v.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer())
}

// watchDevices connects the claims and devices to their informers, where the API server
// serves them. It returns what has to be synced before the first scheduling cycle.
func (h *hosts) watchDevices(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
	served := h.options.Devices
	if !served.Devices {
		return nil, nil
	}
	kinds := factory.Resource().V1()
	watched := devices.Informers{
		Claims: kinds.ResourceClaims().Informer(), Slices: kinds.ResourceSlices().Informer(), Classes: kinds.DeviceClasses().Informer(),
	}
	if served.Rules {
		watched.Rules = kinds.DeviceTaintRules().Informer()
	}
	return h.devices.UseInformers(watched)
}

// trialSource returns what a trial of a profile reads: the nodes and pods of the informers'
// stores, without waiting for the loop, and assumed and nominated pods. The client of its
// Host refuses writes.
func (h *hosts) trialSource() *sandbox.Source {
	core := h.options.Informers.Core().V1()
	config, client := sandbox.NewRefusingClient(h.options.KubeConfig)
	return &sandbox.Source{
		Nodes: core.Nodes().Lister(), Pods: core.Pods().Lister(), Cache: h.cache, Unsupported: h.options.Unsupported, Pool: sandbox.NewPool(h.options.Clock),
		Host: framework.Host{
			Client: client, KubeConfig: config, Informers: h.options.Informers, Volumes: h.volumes.ReadOnly(), Devices: h.devices.ReadOnly(),
			Groups: h.cache.Groups(), Clock: h.options.Clock, Go: h.options.Go, Wait: h.options.Wait,
		},
	}
}
