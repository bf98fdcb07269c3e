package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// Extended resources that classes back: cardResource by its name in the class gpu,
// largeResource by the name of the class.
const (
	cardResource  = "example.com/card"
	largeResource = resourceapi.ResourceDeviceClassPrefix + "large"
)

// extendedClaim is what PreBind writes for the extended resources of a pod.
type extendedClaim struct {
	Claim    *resourceapi.ResourceClaim
	Mappings *v1.PodExtendedResourceClaimStatus
}

// nameClaims gives created claims a name, as the API server does, and delivers them to the
// informer before the answer: kube-scheduler waits for that in steps of a second.
func (s *side) nameClaims() {
	s.client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		claim.Name = "extended-" + claim.OwnerReferences[0].Name
		claim.UID, claim.ResourceVersion = types.UID(claim.Name), s.nextVersion()
		if err := s.client.Tracker().Add(claim); err != nil {
			return true, nil, err
		}
		s.claims.set(claim)
		return true, claim.DeepCopy(), nil
	})
}

// preBind runs PreBind, with all claims of the pod in the API server, and returns what it
// wrote for extended resources.
func (s *side) preBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (*extendedClaim, string) {
	objects := []runtime.Object{pod.DeepCopy()}
	for i := range pod.Spec.ResourceClaims {
		claim, err := s.manager.ResourceClaims().Get(pod.Namespace, *pod.Spec.ResourceClaims[i].ResourceClaimName)
		if err != nil {
			return nil, err.Error()
		}
		objects = append(objects, claim.DeepCopy())
	}
	for _, object := range objects {
		if err := s.client.Tracker().Add(object); err != nil {
			return nil, err.Error()
		}
	}
	if status := s.plugin.(fwk.PreBindPlugin).PreBind(ctx, state, pod, node); !status.IsSuccess() {
		return nil, textOf(status)
	}
	written, err := s.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err.Error()
	}
	e := &extendedClaim{Mappings: written.Status.ExtendedResourceClaimStatus}
	if e.Mappings == nil {
		return nil, ""
	}
	if e.Claim, err = s.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, e.Mappings.ResourceClaimName, metav1.GetOptions{}); err != nil {
		return nil, err.Error()
	}
	return e, ""
}

// comparable returns e without what differs from run to run.
func (e *extendedClaim) comparable() *extendedClaim {
	if e == nil {
		return nil
	}
	c := &extendedClaim{Claim: e.Claim.DeepCopy(), Mappings: e.Mappings}
	c.Claim.ResourceVersion, c.Claim.ManagedFields = "", nil
	if allocation := c.Claim.Status.Allocation; allocation != nil {
		allocation.AllocationTimestamp = nil
		clearShareIDs(allocation)
	}
	return c
}

// requestExtended makes a pod request extended resources, at times. It reports whether it
// does.
func (g *deviceGenerator) requestExtended(b *fixture.PodBuilder) bool {
	if !g.extended || !g.chance(50) {
		return false
	}
	amount := func() string { return fmt.Sprint(1 + g.IntN(2)) }
	b.Requests(one(g, cardResource, cardResource, largeResource), amount())
	if g.chance(30) {
		b.Requests(one(g, cardResource, largeResource), amount())
	}
	if g.chance(25) {
		b.InitRequests(cardResource, amount())
	}
	if g.chance(15) {
		b.SidecarRequests(cardResource, "1")
	}
	g.covered["extended resources"]++
	return true
}
