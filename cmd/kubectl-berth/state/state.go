// Package state reads the live state of a cluster, as far as the user may, and the running
// profiles, as input for a scheduler in a sandbox. It adds a note for each kind that could
// not be read, with what the result lacks.
package state

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// Object is an object of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// State is a copy of the cluster, as far as the user may read it.
type State struct {
	Nodes []*v1.Node
	// Pods are the pods that have not ended.
	Pods []*v1.Pod
	// Others are the other objects that plugins read.
	Others []Object
	// Namespaces are the labels of the namespaces by name; nil if they may not be read.
	Namespaces map[string]map[string]string
}

// Reader reads a cluster and finds the running profile.
type Reader struct {
	Cluster *cluster.Cluster
	// Preempts: the result includes preemption.
	Preempts bool
	// Note receives notes on the result: sentences without a full stop.
	Note func(format string, args ...any)
}

// ReadableKind is a kind besides nodes and pods that plugins read, and what a result lacks
// without it.
type ReadableKind struct {
	List         client.ObjectList
	Name         string
	IfUnreadable string
}

// Readable are these kinds.
var Readable = append([]ReadableKind{
	{&v1.NamespaceList{}, "namespaces", "namespaceSelectors of pod affinity match nothing, and allowedNamespaces is not checked"},
	{&v1.ServiceList{}, "services", "default spreading does not count a Service's pods"},
	{&v1.ReplicationControllerList{}, "replicationcontrollers", "default spreading does not count a ReplicationController's pods"},
	{&appsv1.ReplicaSetList{}, "replicasets.apps", "default spreading does not count a ReplicaSet's pods"},
	{&appsv1.StatefulSetList{}, "statefulsets.apps", "default spreading does not count a StatefulSet's pods"},
	{&policyv1.PodDisruptionBudgetList{}, "poddisruptionbudgets.policy", "preemption ignores PodDisruptionBudgets"},
}, slices.Concat(storageKinds, deviceKinds)...)

// NotEnded selects the pods that use resources of their node, as Berth does.
var NotEnded = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
)}

// Read reads the cluster. It adds a note for each kind that may not be read; for nodes and
// pods it returns an error.
func (r Reader) Read(ctx context.Context) (*State, error) {
	s := &State{}
	err := r.ListEach(ctx, &v1.NodeList{}, func(one Object) { s.Nodes = append(s.Nodes, one.(*v1.Node)) })
	if err != nil {
		return nil, fmt.Errorf("nodes: the result needs them: %w", cluster.UserError(err))
	}
	err = r.ListEach(ctx, &v1.PodList{}, func(one Object) { s.Pods = append(s.Pods, one.(*v1.Pod)) }, NotEnded)
	if err != nil {
		return nil, fmt.Errorf("pods of all namespaces: the result needs to know which resources are used: %w", cluster.UserError(err))
	}
	for _, kind := range Readable {
		if _, budgets := kind.List.(*policyv1.PodDisruptionBudgetList); budgets && !r.Preempts {
			continue
		}
		names := map[string]map[string]string{}
		err := r.ListEach(ctx, kind.List, func(one Object) {
			s.Others = append(s.Others, one)
			names[one.GetName()] = one.GetLabels()
		})
		switch {
		case apierrors.IsForbidden(err):
			r.Note("you may not list %s: %s", kind.Name, kind.IfUnreadable)
			continue
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue // an older API server does not serve it
		case err != nil:
			return nil, fmt.Errorf("%s: %w", kind.Name, cluster.UserError(err))
		}
		if _, is := kind.List.(*v1.NamespaceList); is {
			s.Namespaces = names
		}
	}
	return s, nil
}

// ListEach calls use with the objects of a kind in all namespaces, listed in pages.
func (r Reader) ListEach(ctx context.Context, kind client.ObjectList, use func(Object), selected ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		all := append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, selected...)
		return list, r.Cluster.Client.List(ctx, list, all...)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(one runtime.Object) error {
		use(one.(Object))
		return nil
	})
}

// Find returns the cluster's object with the kind and name of this one; nil if there is
// none.
func (s *State) Find(like Object) Object {
	for _, other := range s.Others {
		if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", like) && other.GetName() == like.GetName() && other.GetNamespace() == like.GetNamespace() {
			return other
		}
	}
	return nil
}

// Fill adds the state to a scheduler, as the manager's informers would. It returns the
// number of pending pods of the profile that are neither gated nor nominated.
func (s *State) Fill(scheduler *sandbox.Scheduler, p *Profile) (pending int, err error) {
	for _, object := range s.Others {
		if err := scheduler.SetObject(object); err != nil {
			return 0, err
		}
	}
	for _, node := range s.Nodes {
		scheduler.SetNode(nil, node)
	}
	for _, pod := range s.Pods {
		nominated := pod.Status.NominatedNodeName != "" && p.Serves(pod.Spec.SchedulerName)
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName == p.Name && len(pod.Spec.SchedulingGates) == 0 && !nominated {
			pending++
		}
		if pod.Spec.NodeName == "" && !nominated {
			continue
		}
		scheduler.SetPod(nil, pod)
	}
	return pending, nil
}

// storageUnreadable is what a result lacks without one of the kinds for volumes.
const storageUnreadable = "results for pods with volumes may be wrong"

// storageKinds are the kinds that tell where volumes are, and where they can be attached or
// provisioned: those that the event handlers of the manager watch.
var storageKinds = []ReadableKind{
	{&v1.PersistentVolumeList{}, "persistentvolumes", storageUnreadable},
	{&v1.PersistentVolumeClaimList{}, "persistentvolumeclaims", storageUnreadable},
	{&storagev1.StorageClassList{}, "storageclasses.storage.k8s.io", storageUnreadable},
	{&storagev1.CSINodeList{}, "csinodes.storage.k8s.io", storageUnreadable},
	{&storagev1.CSIDriverList{}, "csidrivers.storage.k8s.io", storageUnreadable},
	{&storagev1.CSIStorageCapacityList{}, "csistoragecapacities.storage.k8s.io", storageUnreadable},
	{&storagev1.VolumeAttachmentList{}, "volumeattachments.storage.k8s.io", storageUnreadable},
}

// devicesUnreadable is what a result lacks without one of the kinds for devices.
const devicesUnreadable = "results for pods with devices may be wrong"

// deviceKinds are the kinds that tell which devices there are, and which are allocated.
var deviceKinds = []ReadableKind{
	{&resourcev1.DeviceClassList{}, "deviceclasses.resource.k8s.io", "every extended resource is taken from the node's allocatable"},
	{&resourcev1.ResourceSliceList{}, "resourceslices.resource.k8s.io", devicesUnreadable},
	{&resourcev1.DeviceTaintRuleList{}, "devicetaintrules.resource.k8s.io", devicesUnreadable},
	{&resourcev1.ResourceClaimList{}, "resourceclaims.resource.k8s.io", devicesUnreadable},
}

// DevicePermissions returns the permissions for these kinds.
func DevicePermissions(why string, verbs ...string) (rights []verb.Permission) {
	for _, resource := range []string{"deviceclasses", "resourceslices", "devicetaintrules", "resourceclaims"} {
		rights = append(rights, verb.Permission{Verbs: verbs, Group: resourcev1.GroupName, Resource: resource, Purpose: why})
	}
	return rights
}

// StoragePermissions returns the permissions for these kinds.
func StoragePermissions(why string, verbs ...string) []verb.Permission {
	rights := []verb.Permission{
		{Verbs: verbs, Resource: "persistentvolumes", Purpose: why},
		{Verbs: verbs, Resource: "persistentvolumeclaims", Purpose: why},
	}
	for _, resource := range []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"} {
		rights = append(rights, verb.Permission{Verbs: verbs, Group: "storage.k8s.io", Resource: resource, Purpose: why})
	}
	return rights
}
