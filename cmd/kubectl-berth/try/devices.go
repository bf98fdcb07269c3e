package try

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// deviceObjectOf reads a document about devices; nil if it is of another kind.
func deviceObjectOf(d manifest.Document) (state.Object, error) {
	var object state.Object
	switch d.Object.GroupVersionKind() {
	case resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"):
		object = &resourceapi.ResourceClaim{}
	case resourceapi.SchemeGroupVersion.WithKind("ResourceClaimTemplate"):
		object = &resourceapi.ResourceClaimTemplate{}
	case resourceapi.SchemeGroupVersion.WithKind("DeviceClass"):
		object = &resourceapi.DeviceClass{}
	default:
		return nil, nil
	}
	if err := manifest.Decode(d.Object, object); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Object.GetKind(), err)
	}
	if object.GetName() == "" {
		return nil, fmt.Errorf("%s: metadata.name: Required value", d.Object.GetKind())
	}
	return object, nil
}

// claimName returns the name of the claim that a controller would generate for a pod.
func claimName(pod *v1.Pod, claim string) string { return pod.Name + "-" + claim }

// nameDeviceClaims writes the names of the generated claims into a pod's status.
func nameDeviceClaims(pod *v1.Pod) {
	pod.Status.ResourceClaimStatuses = nil
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			name := claimName(pod, c.Name)
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &name})
		}
	}
}

// addDeviceClaims adds the objects about devices in the files to the copy, in place of those
// of the cluster, and the claims that the controller would generate for the pods.
func (o *options) addDeviceClaims(ctx context.Context, s *subject, live *state.State) error {
	for _, object := range s.devices {
		if _, isClass := object.(*resourceapi.DeviceClass); !isClass {
			object.SetNamespace(cmp.Or(object.GetNamespace(), s.pod.Namespace))
		}
		object.SetUID(types.UID(placeholder + "/" + object.GetNamespace() + "/" + object.GetName()))
		if _, isTemplate := object.(*resourceapi.ResourceClaimTemplate); isTemplate {
			continue // the scheduler reads none
		}
		if known := live.Find(object); known != nil {
			live.Others = slices.DeleteFunc(live.Others, func(other state.Object) bool { return other == known })
		}
		live.Others = append(live.Others, object)
	}
	for _, c := range s.pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		template, err := o.claimTemplate(ctx, s, *c.ResourceClaimTemplateName)
		if err != nil {
			return fmt.Errorf("%s: spec.resourceClaims[%s]: %w", s.title, c.Name, err)
		}
		for _, pod := range s.pods() {
			live.Others = append(live.Others, generatedClaim(pod, c.Name, template))
		}
	}
	return nil
}

// claimTemplate returns a template from the files, or else from the cluster.
func (o *options) claimTemplate(ctx context.Context, s *subject, name string) (*resourceapi.ResourceClaimTemplate, error) {
	for _, object := range s.devices {
		if template, ok := object.(*resourceapi.ResourceClaimTemplate); ok && template.Name == name && template.Namespace == s.pod.Namespace {
			return template, nil
		}
	}
	template := &resourceapi.ResourceClaimTemplate{}
	err := o.cluster.Client.Get(ctx, client.ObjectKey{Namespace: s.pod.Namespace, Name: name}, template)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no ResourceClaimTemplate %s/%s: add it to FILE", s.pod.Namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("ResourceClaimTemplate %s/%s: %w", s.pod.Namespace, name, cluster.UserError(err))
	}
	return template, nil
}

// generatedClaim returns a claim of a pod as the controller generates it.
func generatedClaim(pod *v1.Pod, name string, template *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: *template.Spec.ObjectMeta.DeepCopy(), Spec: *template.Spec.Spec.DeepCopy()}
	claim.Namespace, claim.Name = pod.Namespace, claimName(pod, name)
	claim.UID = types.UID(placeholder + "/" + claim.Namespace + "/" + claim.Name)
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
	for i := range claim.Spec.Devices.Requests {
		setDefaults(claim.Spec.Devices.Requests[i].Exactly)
	}
	return claim
}

// setDefaults sets what the API server sets in a request.
func setDefaults(request *resourceapi.ExactDeviceRequest) {
	if request == nil {
		return
	}
	if request.AllocationMode == "" {
		request.AllocationMode = resourceapi.DeviceAllocationModeExactCount
	}
	if request.AllocationMode == resourceapi.DeviceAllocationModeExactCount && request.Count == 0 {
		request.Count = 1
	}
}
