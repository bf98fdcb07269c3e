package devices

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
)

// card is an extended resource that a class backs.
const card = "example.com/card"

// The writes for a pod with a claim from a template and an extended resource, in order.
var (
	createClaim  = faultproxy.Kind{Method: http.MethodPost, Resource: "resourceclaims"}
	addFinalizer = faultproxy.Kind{Method: http.MethodPut, Resource: "resourceclaims"}
	writeStatus  = faultproxy.Kind{Method: http.MethodPut, Resource: "resourceclaims", Subresource: "status"}
	writePod     = faultproxy.Kind{Method: http.MethodPatch, Resource: "pods", Subresource: "status"}
	bindPod      = faultproxy.Kind{Method: http.MethodPost, Resource: "pods", Subresource: "binding"}
)

// deviceWriter tests that a pod gets its devices although one of the writes fails.
type deviceWriter struct {
	testEnv
	pod *v1.Pod
}

// newDeviceWriter creates two nodes with four devices each, of which the pod needs one by a
// claim from a template and one as an extended resource.
func newDeviceWriter(ctx context.Context) *deviceWriter {
	env := newTestEnv(ctx, 2)
	class := deviceClass("cards", `device.driver == "gpu.example.com"`)
	class.Spec.ExtendedResourceName = new(card)
	env.create(ctx, class, env.template("gpus", requestOf(driver, "")))
	pod := env.pod("p", v1.PodResourceClaim{ResourceClaimTemplateName: new("gpus")})
	one := fixture.Resources(card, "1")
	pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits = one, one
	return &deviceWriter{env, pod}
}

// expectDevices waits until the pod is bound. Then it has two different devices of its node
// in two claims, and there is no other claim.
func (d *deviceWriter) expectDevices(ctx context.Context) {
	GinkgoHelper()
	admin.ExpectBound(ctx, d.pod)
	Eventually(func(g Gomega) {
		var claims resourceapi.ResourceClaimList
		g.Expect(admin.List(ctx, &claims, client.InNamespace(d.namespace))).To(Succeed())
		g.Expect(claims.Items).To(HaveLen(2), "claims of the pod")
		var given []string
		for i := range claims.Items {
			devices, reserved := d.devicesOf(ctx, claims.Items[i].Name)(g)
			g.Expect(devices).To(HaveLen(1), claims.Items[i].Name)
			g.Expect(reserved).To(ConsistOf("p"), claims.Items[i].Name)
			g.Expect(devices[0]).To(HavePrefix(d.pod.Spec.NodeName + "/"))
			given = append(given, devices...)
		}
		slices.Sort(given)
		g.Expect(slices.Compact(given)).To(HaveLen(2), "different devices")
		g.Expect(d.pod.Status.ExtendedResourceClaimStatus).NotTo(BeNil())
		g.Expect(claims.Items).To(ContainElement(HaveField("Name", d.pod.Status.ExtendedResourceClaimStatus.ResourceClaimName)))
	}).Should(Succeed())
}

// failOnce gives the first such write of the namespace a fault.
func (d *deviceWriter) failOnce(is faultproxy.Kind, fault func() *faultproxy.Fault) (failed *atomic.Bool) {
	failed = &atomic.Bool{}
	proxy.SetAllFaults(func(w faultproxy.Write) *faultproxy.Fault {
		if !is.Is(w, d.namespace) || !failed.CompareAndSwap(false, true) {
			return nil
		}
		return fault()
	})
	DeferCleanup(func() { proxy.SetAllFaults(nil) })
	return failed
}

var internalError = faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)

var _ = Describe("A write for devices that fails once: the pod gets its devices, and no device is lost", func() {
	for name, is := range map[string]faultproxy.Kind{
		"the creation of a claim": createClaim, "the finalizer of a claim": addFinalizer, "the status of a claim": writeStatus,
		"the status of the pod": writePod, "the Binding": bindPod,
	} {
		for how, fault := range map[string]faultproxy.Fault{
			"with 500":                        {Answer: internalError},
			"with 500, though it took effect": {Commits: true, Answer: internalError},
			"and its answer is lost":          {Commits: true, Answer: faultproxy.Cut},
		} {
			It(name+" "+how, specTimeout, func(ctx SpecContext) {
				d := newDeviceWriter(ctx)
				failed := d.failOnce(is, func() *faultproxy.Fault { return &fault })
				d.create(ctx, d.pod)
				d.expectDevices(ctx)
				Expect(failed.Load()).To(BeTrue(), "the write has failed")
			})
		}
	}

	for name, is := range map[string]faultproxy.Kind{"the finalizer of a claim": addFinalizer, "the status of a claim": writeStatus} {
		It(name+" meets a conflict", specTimeout, func(ctx SpecContext) {
			d := newDeviceWriter(ctx)
			failed := d.failOnce(is, func() *faultproxy.Fault {
				defer GinkgoRecover()
				var claims resourceapi.ResourceClaimList
				Expect(admin.List(ctx, &claims, client.InNamespace(d.namespace))).To(Succeed())
				for i := range claims.Items {
					patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
					Expect(admin.Patch(ctx, &claims.Items[i], patch)).To(Succeed())
				}
				return nil
			})
			d.create(ctx, d.pod)
			d.expectDevices(ctx)
			Expect(failed.Load()).To(BeTrue(), "a claim has changed before the write")
		})
	}
})

var _ = Describe("A manager that is killed at a write for devices: the next one gives the pod its devices", func() {
	for name, is := range map[string]faultproxy.Kind{
		"the creation of a claim": createClaim, "the finalizer of a claim": addFinalizer, "the status of a claim": writeStatus,
		"the status of the pod": writePod, "the Binding": bindPod,
	} {
		for when, after := range map[string]bool{"before": false, "after": true} {
			It(when+" "+name, specTimeout, func(ctx SpecContext) {
				d := newDeviceWriter(ctx)
				killed := berth
				d.failOnce(is, func() *faultproxy.Fault { return faultproxy.CutAround(after, killed.Kill) })
				d.create(ctx, d.pod)
				Eventually(killed.Ended()).Should(BeClosed())
				startBerth(ctx)
				d.expectDevices(ctx)
			})
		}
	}
})
