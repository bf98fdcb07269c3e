package crashes

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/test/support/fixture"
)

// Scenarios of volumes and devices.

// provisioner is the provisioner that actVolumes stands for.
const provisioner = "example.com/crashes"

// prepareVolumes creates a class with a volume on each of two nodes, a class whose volumes are
// provisioned, and a claim of each.
func prepareVolumes(ctx context.Context, e *env) error {
	static, made := e.id+"-static", e.id+"-made"
	objects := []func() error{
		func() error { return e.create(ctx, e.node("n0", 4).Obj(), e.node("n1", 4).Obj()) },
		func() error {
			return e.create(ctx, fixture.StorageClass(static, ""), fixture.StorageClass(made, provisioner),
				fixture.Volume(e.id+"-v0", static).NodeAffinity(v1.LabelHostname, e.id+"-n0").Obj(),
				fixture.Volume(e.id+"-v1", static).NodeAffinity(v1.LabelHostname, e.id+"-n1").Obj(),
				fixture.Claim(e.id+"/static", static).Obj(), fixture.Claim(e.id+"/made", made).Obj())
		},
		func() error { return e.startProfile(ctx) },
	}
	for _, do := range objects {
		if err := do(); err != nil {
			return err
		}
	}
	return until(ctx, "available volumes", func(ctx context.Context) error {
		for _, name := range []string{e.id + "-v0", e.id + "-v1"} {
			v, err := e.cp.Client().CoreV1().PersistentVolumes().Get(ctx, name, getOptions)
			if err != nil || v.Status.Phase != v1.VolumeAvailable {
				return errors.Join(err, fmt.Errorf("%s is %s", name, v.Status.Phase))
			}
		}
		return nil
	})
}

// actVolumes creates a pod with both claims, and provisions a volume on the node that is
// selected.
func actVolumes(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, e.pod("web", 1).Claim("static").Claim("made")); err != nil {
		return err
	}
	return until(ctx, "the bind of web", func(ctx context.Context) error {
		if err := e.provision(ctx, "made"); err != nil {
			return err
		}
		var pod v1.Pod
		if err := e.get(ctx, "web", &pod); err != nil || pod.Spec.NodeName != "" {
			return err
		}
		return fmt.Errorf("it has no node: %+v", pod.Status.Conditions)
	})
}

// provision creates a volume for a claim, once a node is selected.
func (e *env) provision(ctx context.Context, name string) error {
	var claim v1.PersistentVolumeClaim
	if err := e.get(ctx, name, &claim); err != nil {
		return err
	}
	node := claim.Annotations[volume.AnnSelectedNode]
	if node == "" {
		return nil
	}
	made := fixture.Volume(e.id+"-for-"+name, *claim.Spec.StorageClassName).NodeAffinity(v1.LabelHostname, node).BoundTo(&claim).Obj()
	if err := e.create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// expectVolumes expects that the volume on the other node belongs to no claim.
func expectVolumes(ctx context.Context, e *env) error {
	var pod v1.Pod
	if err := e.get(ctx, "web", &pod); err != nil {
		return err
	}
	free := 0
	for _, name := range []string{"n0", "n1"} {
		v, err := e.cp.Client().CoreV1().PersistentVolumes().Get(ctx, e.id+"-v"+name[1:], getOptions)
		if err != nil {
			return err
		}
		switch onNode := pod.Spec.NodeName == e.id+"-"+name; {
		case v.Spec.ClaimRef == nil:
			free++
		case !onNode:
			return fmt.Errorf("volume %s is bound to %s, whose pod is on %s", v.Name, v.Spec.ClaimRef.Name, pod.Spec.NodeName)
		}
	}
	if free != 1 {
		return fmt.Errorf("%d of two volumes are free, want one", free)
	}
	return nil
}

// driver is the driver of the devices of a scenario; card is the extended resource that they
// back.
func (e *env) driver() string { return e.id + ".example.com" }

func (e *env) card() string { return "example.com/" + e.id + "-card" }

// prepareNodesWithDevices creates two nodes with four devices each, and runs the profile.
func prepareNodesWithDevices(ctx context.Context, e *env) error {
	class := fixture.DeviceClass(e.id).Selector(fmt.Sprintf("device.driver == %q", e.driver())).ExtendedResource(e.card()).Obj()
	if err := e.create(ctx, class); err != nil {
		return err
	}
	for _, name := range []string{"n0", "n1"} {
		slice := fixture.ResourceSlice(e.id+"-"+name, e.driver())
		for i := range 4 {
			slice.Device(fmt.Sprint("device-", i), nil)
		}
		if err := e.create(ctx, e.node(name, 4).Obj(), slice.Obj()); err != nil {
			return err
		}
	}
	return e.startProfile(ctx)
}

func prepareDevices(ctx context.Context, e *env) error {
	if err := prepareNodesWithDevices(ctx, e); err != nil {
		return err
	}
	return e.create(ctx, fixture.ResourceClaim(e.id+"/gpu").Request("gpu", e.id).Obj())
}

// withClaim makes a pod use the claim gpu.
func withClaim(b *fixture.PodBuilder) *fixture.PodBuilder {
	return b.ResourceClaim("gpu").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers = []v1.Container{{Name: "c0", Image: "none", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}}}}
	})
}

// actDevices creates a pod that gets one device by a claim and one as an extended resource.
func actDevices(ctx context.Context, e *env) error {
	one := fixture.Resources(e.card(), "1")
	pod := withClaim(e.pod("web", 0)).Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits = one, one
	})
	if err := e.createPods(ctx, pod); err != nil {
		return err
	}
	if err := e.bound(ctx, "web"); err != nil {
		return err
	}
	return until(ctx, "the claim of the extended resource", func(ctx context.Context) error {
		var pod v1.Pod
		if err := e.get(ctx, "web", &pod); err != nil {
			return err
		}
		if pod.Status.ExtendedResourceClaimStatus == nil {
			return errors.New("the pod's status names none")
		}
		return e.get(ctx, pod.Status.ExtendedResourceClaimStatus.ResourceClaimName, &resourceapi.ResourceClaim{})
	})
}

// isBinding selects Bindings.
func isBinding(is request) bool { return is.resource == "pods/binding" }

// isBindingOfFirst selects the Bindings of one pod.
func isBindingOfFirst(is request) bool { return isBinding(is) && is.name == "web-0" }

// actReservedDevices creates a pod whose claim has a reservation for it, as an attempt leaves it that
// could not take it back.
func actReservedDevices(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, withClaim(e.pod("web", 0)).SchedulingGate("example.com/claim")); err != nil {
		return err
	}
	var pod v1.Pod
	if err := e.get(ctx, "web", &pod); err != nil {
		return err
	}
	node := e.id + "-n1"
	claim := fixture.ResourceClaim(e.id+"/gpu").Request("gpu", e.id).Allocated(node, e.driver()+"/"+node+"/device-0").ReservedFor(&pod)
	if err := e.create(ctx, claim.Obj()); err != nil {
		return err
	}
	if _, err := e.cp.Client().CoreV1().Pods(e.id).Patch(ctx, "web", mergePatch, []byte(`{"spec":{"schedulingGates":null}}`), patchOptions); err != nil {
		return err
	}
	return e.bound(ctx, "web")
}

// prepareDeallocation allocates the claim on a node that takes no pods any more.
func prepareDeallocation(ctx context.Context, e *env) error {
	if err := prepareNodesWithDevices(ctx, e); err != nil {
		return err
	}
	first := e.id + "-n0"
	if err := e.cordon(ctx, first); err != nil {
		return err
	}
	return e.create(ctx, fixture.ResourceClaim(e.id+"/gpu").Request("gpu", e.id).Allocated(first, e.driver()+"/"+first+"/device-0").Obj())
}

// cordon makes a node unschedulable.
func (e *env) cordon(ctx context.Context, name string) error {
	_, err := e.cp.Client().CoreV1().Nodes().Patch(ctx, name, mergePatch, []byte(`{"spec":{"unschedulable":true}}`), patchOptions)
	return err
}

func actDeallocation(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, withClaim(e.pod("web", 0))); err != nil {
		return err
	}
	return e.bound(ctx, "web")
}
