package ui

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// The names of the kinds, which are the fields of the stream's messages. Slices are not sent:
// their devices are counted in the nodes.
const (
	profilesKind  = "profiles"
	nodesKind     = "nodes"
	decisionsKind = "decisions"
	podsKind      = "pods"
	slicesKind    = "slices"
)

// sentKinds are the kinds that are sent, in the order in which they are.
var sentKinds = []string{profilesKind, nodesKind, decisionsKind, podsKind}

// kind is a kind that is watched.
type kind struct {
	name string
	// resource is the name in permissions and notes.
	resource string
	list     func() client.ObjectList
	// namespaced: a user may have permission to list it in one namespace only.
	namespaced bool
	// selected are the objects that are read; nil for all.
	selected fields.Selector
	// record returns what is kept of an object; nil for an object that is not shown.
	record func(client.Object) any
	// effect is what the page shows without permission to list it.
	effect string
}

// kinds are the kinds that are watched.
var kinds = []*kind{
	{
		name: profilesKind, resource: "schedulingprofiles.berth.dev", record: profileRecord, effect: "no profile is shown",
		list: func() client.ObjectList { return &v1alpha1.SchedulingProfileList{} },
	},
	{
		name: nodesKind, resource: "nodes", record: nodeRecord, effect: "the map is empty",
		list: func() client.ObjectList { return &corev1.NodeList{} },
	},
	{
		name: slicesKind, resource: "resourceslices.resource.k8s.io", record: sliceRecord, effect: "the devices of nodes are not counted",
		list: func() client.ObjectList { return &resourcev1.ResourceSliceList{} },
	},
	{
		name: decisionsKind, resource: "schedulingdecisions.berth.dev", record: decisionRecord, effect: "reasons of pending pods are not shown",
		list: func() client.ObjectList { return &v1alpha1.SchedulingDecisionList{} }, namespaced: true,
	},
	{
		name: podsKind, resource: "pods", record: podRecord, effect: "no pod is shown",
		list: func() client.ObjectList { return &corev1.PodList{} }, namespaced: true, selected: state.NotEnded.Selector,
	},
}

// listNote says what the page shows after objects could not be listed.
func (k *kind) listNote(err error) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("You may not list %s: %s.", k.resource, k.effect)
	}
	return k.errorNote(err)
}

// namespaceNote says what the page shows where objects may be listed in one namespace only.
func (k *kind) namespaceNote(namespace string) string {
	return fmt.Sprintf("You may not list %s in all namespaces: those of namespace %s are shown.", k.resource, namespace)
}

// watchNote says what the page shows after a watch failed.
func (k *kind) watchNote(err error) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("You may not watch %s: they are listed now and then, and changes are shown late.", k.resource)
	}
	return k.errorNote(err)
}

func (k *kind) errorNote(err error) string {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return fmt.Sprintf("The API server does not serve %s: %s.", k.resource, k.effect)
	}
	return fmt.Sprintf("The watch of %s is interrupted, and is tried again: %v.", k.resource, err)
}
