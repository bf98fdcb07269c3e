package eventhandlers

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// PendingPods passes pods without a node to the queue, and their nominations to the
// cache: each pod when its events come, and all pods of a profile when the profile
// begins to run, since the queue does not keep pods that no profile serves. It has no
// state of its own, and implements profile.PodQueue.
type PendingPods struct {
	Cache       *cache.Cache
	Queue       *queue.Queue
	WaitingPods *framework.WaitingPods
	// Pods reads the informer's store.
	Pods corelisters.PodLister
	// Withdraw takes back the explanation of a pod that another scheduler may serve; nil where no
	// pod is explained.
	Withdraw func(namespace, pod string, uid types.UID)
	Log      logr.Logger
}

// SetProfile gives the queue the rules of a profile. When the name is served for the
// first time, it adds the pods that name it. A swap of a served name reads no list.
func (p *PendingPods) SetProfile(ctx context.Context, name string, rules *queue.Rules) {
	if p.Queue.Serves(name) {
		p.Queue.SetProfile(ctx, name, rules)
		return
	}
	// All nominations are recorded before the first of the pods is tried: otherwise a
	// pod could take resources that are nominated to another one.
	var nominated []*v1.Pod
	for _, pod := range p.unassignedPods(name) {
		if pod.Status.NominatedNodeName != "" {
			p.addNomination(pod)
			nominated = append(nominated, pod)
		}
	}
	p.Queue.SetProfile(ctx, name, rules)
	for _, pod := range slices.Concat(nominated, p.unassignedPods(name)) {
		p.addListed(ctx, pod)
	}
}

// HoldProfile holds the pods of a profile that does not run, and adds those that
// the queue did not keep because no profile served the name.
func (p *PendingPods) HoldProfile(ctx context.Context, name string, hold queue.Hold) {
	p.Queue.HoldProfile(name, hold)
	for _, pod := range p.unassignedPods(name) {
		if !p.Queue.Has(pod.UID) {
			p.addListed(ctx, pod)
		}
	}
}

// RemoveProfile holds the profile's pods.
func (p *PendingPods) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	p.Queue.RemoveProfile(name, hold)
}

// ReleaseProfile forgets the pods that are held for a profile that does not run. It writes
// nothing to them: the scheduler that serves the name does.
func (p *PendingPods) ReleaseProfile(ctx context.Context, name string) {
	for _, pod := range p.Queue.ReleaseProfile(ctx, name) {
		if p.Withdraw != nil {
			p.Withdraw(pod.Namespace, pod.Name, pod.UID)
		}
	}
}

// AddReleased adds a pod whose attempt has failed to the queue, if ReleaseProfile let the queue forget
// it. What listed the pods of the profile since then has ignored it while it was assumed.
func (p *PendingPods) AddReleased(ctx context.Context, pod *v1.Pod) {
	if p.Queue.Has(pod.UID) {
		return
	}
	latest, err := p.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && latest.UID == pod.UID && latest.Spec.NodeName == "" {
		p.addListed(ctx, latest)
	}
}

// RecheckHolds evaluates again which pods of a profile are held; with namespace,
// only the pods of that namespace.
func (p *PendingPods) RecheckHolds(ctx context.Context, name, namespace string) {
	p.Queue.Reconsider(ctx, name, func(pod *v1.Pod) bool { return namespace == "" || pod.Namespace == namespace })
}

// RecheckGates lets the queue run the pod's PreEnqueue plugins again.
func (p *PendingPods) RecheckGates(ctx context.Context, uid types.UID) { p.Queue.GateOpened(ctx, uid) }

// unassignedPods lists the pods that name the profile and have no node.
func (p *PendingPods) unassignedPods(name string) []*v1.Pod {
	pods, err := p.Pods.List(labels.Everything())
	if err != nil {
		p.Log.Error(err, "Cannot look for pods that wait for the profile", "profile", name)
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" || pod.Spec.SchedulerName != name })
}

// addListed adds a listed pod to the queue. The event handlers may handle a
// newer version of the pod at the same time, before or after this call; so the
// informer's store, which is updated first, is read again until both agree.
func (p *PendingPods) addListed(ctx context.Context, pod *v1.Pod) {
	p.add(ctx, pod)
	for {
		latest, err := p.Pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || latest.UID != pod.UID || latest.Spec.NodeName != "" {
			p.Queue.Delete(pod.UID)
			p.Cache.DeleteNominatedPodIfExists(pod)
			if err != nil || latest.UID != pod.UID {
				p.Cache.Groups().RemovePod(pod)
			}
			return
		}
		if latest == pod {
			return
		}
		// As an update: the older version may say what is over, such as a nomination.
		p.update(ctx, pod, latest)
		pod = latest
	}
}

// Exists reports whether the pod is in the informer's store.
func (p *PendingPods) Exists(pod *v1.Pod) bool {
	latest, err := p.Pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && latest.UID == pod.UID
}

func (p *PendingPods) context() context.Context {
	return klog.NewContext(context.Background(), p.Log)
}

// add adds a pod that has no node to the queue, and its nomination to
// the cache. A pod that is assumed already is ignored.
func (p *PendingPods) add(ctx context.Context, pod *v1.Pod) {
	if _, assumed := p.Cache.AssumedNode(pod.UID); assumed {
		return
	}
	p.setMember(nil, pod)
	p.Queue.Add(ctx, pod)
	p.addNominationIfServed(pod)
	p.memberAdded(ctx, pod)
}

// addNominationIfServed is addNomination for a pod whose profile is served.
func (p *PendingPods) addNominationIfServed(pod *v1.Pod) {
	if p.Queue.Serves(pod.Spec.SchedulerName) {
		p.addNomination(pod)
	}
}

// addNomination adds the nomination in the status of a pod, if there is one, to the
// cache. The pod's profile must be served, or about to be.
func (p *PendingPods) addNomination(pod *v1.Pod) {
	if pod.Status.NominatedNodeName == "" {
		return
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		p.Cache.AddNominatedPod(p.Log, info, nil)
	}
}

// update handles a newer version of a pod that has no node.
func (p *PendingPods) update(ctx context.Context, oldPod, newPod *v1.Pod) {
	changes := podEvents(oldPod, newPod, fwk.TargetPod)
	p.setMember(oldPod, newPod)
	// The queue has the new version then.
	defer p.memberMoved(ctx, unscheduledPodAdd, oldPod, newPod)
	if _, assumed := p.Cache.AssumedNode(newPod.UID); assumed {
		// If the binding fails, the pod is requeued in its newest version.
		p.Queue.UpdateKnown(ctx, oldPod, newPod, changes...)
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			p.EndAssumption(ctx, newPod)
		}
		return
	}
	p.Queue.Update(ctx, oldPod, newPod, changes...)
	nominated, written := p.nominatedNodes(oldPod), newPod.Status.NominatedNodeName
	if info, _ := framework.NewPodInfo(newPod); info != nil && p.Queue.Serves(newPod.Spec.SchedulerName) {
		p.Cache.UpdateNominatedPod(p.Log, oldPod, info)
	} else if terminating(newPod) || written != oldPod.Status.NominatedNodeName && written != p.Cache.NominatedNode(newPod.UID) {
		// A nomination outlives its profile, but not the pod's status, which may show it only now.
		p.Cache.DeleteNominatedPodIfExists(newPod)
	}
	kept := cmp.Or(p.Cache.NominatedNode(newPod.UID), written)
	if terminating(newPod) {
		kept = "" // whatever its status says: it will not use the node
	}
	if len(nominated) > 0 && !p.nominationsFreed(ctx, oldPod, nominated, kept) {
		p.nominatedPodUpdated(ctx, withNomination(oldPod, kept), withNomination(newPod, kept))
	}
}

// nominatedNodes returns the nodes on which resources are reserved for a pending
// pod, or were until now: the cache may know a nomination before the pod's status
// shows it, and drop it before the status does.
func (p *PendingPods) nominatedNodes(pod *v1.Pod) []string {
	inCache, inStatus := p.Cache.NominatedNode(pod.UID), pod.Status.NominatedNodeName
	if inCache == inStatus {
		inStatus = ""
	}
	return slices.DeleteFunc([]string{inCache, inStatus}, func(node string) bool { return node == "" })
}

// nominationsFreed calls NominationFreed for the nodes that a pod was nominated to,
// except the one in kept. It reports whether there were any.
func (p *PendingPods) nominationsFreed(ctx context.Context, pod *v1.Pod, nominated []string, kept string) bool {
	found := false
	for _, node := range nominated {
		if node != kept {
			found = true
			p.NominationFreed(ctx, pod, node)
		}
	}
	return found
}

// NominationFreed wakes the pods that may use the resources on node that were
// nominated to pod. These are pods of no higher priority: nominations do not block
// the others, nor the pod itself.
func (p *PendingPods) NominationFreed(ctx context.Context, pod *v1.Pod, node string) {
	pod = withNomination(pod, node)
	priority := corev1.PodPriority(pod)
	p.Queue.Event(ctx, assignedPodDelete, pod, nil, func(other *v1.Pod) bool {
		return other.UID != pod.UID && corev1.PodPriority(other) <= priority
	})
}

// withNomination returns a pod with a node that only the cache may know: hints ignore what happens
// to a pod that has none.
func withNomination(pod *v1.Pod, node string) *v1.Pod {
	if pod.Status.NominatedNodeName == node {
		return pod
	}
	nominated := *pod
	nominated.Status.NominatedNodeName = node
	return &nominated
}

// nominatedPodUpdated wakes the pods for which a change of a nominated pod matters:
// those of no higher priority, without the pod itself.
func (p *PendingPods) nominatedPodUpdated(ctx context.Context, oldPod, newPod *v1.Pod) {
	priority := corev1.PodPriority(newPod)
	for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
		p.Queue.Event(ctx, change, oldPod, newPod, func(other *v1.Pod) bool {
			return other.UID != newPod.UID && corev1.PodPriority(other) <= priority
		})
	}
}

// EndAssumption frees the node of an assumed pod that is terminating. One that waits Permit
// is rejected, and its binding cycle frees the node. A binding cycle past Permit goes on, maybe
// for minutes, and cannot bind the pod any more: the API server binds no terminating pod, and
// pod, which must be a version without a node, shows that no earlier Binding took effect. What
// Reserve plugins hold is freed at the end of the cycle, which wakes pods again.
func (p *PendingPods) EndAssumption(ctx context.Context, pod *v1.Pod) {
	if p.RejectWaitingPod(pod) {
		return
	}
	assumed := p.Cache.Pod(pod.UID)
	if p.Cache.ForgetPod(pod.UID) {
		p.Queue.Event(ctx, assignedPodDelete, assumed, nil, nil)
	}
}

// RejectWaitingPod ends the wait on Permit of a deleted pod, and reports whether it waited.
func (p *PendingPods) RejectWaitingPod(pod *v1.Pod) bool {
	if waiting := p.WaitingPods.Get(pod.UID); waiting != nil {
		return waiting.Reject("", "the pod was deleted")
	}
	return false
}
