package devices

import (
	"context"
	"net/http"
	"slices"
	"strings"
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

// write is one of the writes by which a pod gets devices.
type write struct {
	method string
	// resource and subresource are those of the path.
	resource, subresource string
}

// The writes for a pod with a claim from a template and an extended resource, in order.
var (
	createClaim  = write{http.MethodPost, "resourceclaims", ""}
	addFinalizer = write{http.MethodPut, "resourceclaims", ""}
	writeStatus  = write{http.MethodPut, "resourceclaims", "status"}
	writePod     = write{http.MethodPatch, "pods", "status"}
	bindPod      = write{http.MethodPost, "pods", "binding"}
)

// is reports whether w is this write, in a namespace.
func (is write) is(w faultproxy.Write, namespace string) bool {
	_, path, _ := strings.Cut(w.Path, "/namespaces/"+namespace+"/")
	parts := append(strings.Split(path, "/"), "", "")
	return w.Method == is.method && parts[0] == is.resource && parts[2] == is.subresource
}

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
func (d *deviceWriter) failOnce(is write, fault func() *faultproxy.Fault) (failed *atomic.Bool) {
	failed = &atomic.Bool{}
	once := func(w faultproxy.Write) *faultproxy.Fault {
		if !is.is(w, d.namespace) || !failed.CompareAndSwap(false, true) {
			return nil
		}
		return fault()
	}
	proxy.SetWriteFaults(once)
	proxy.SetFaults(func(b faultproxy.Binding) *faultproxy.Fault {
		return once(faultproxy.Write{Method: http.MethodPost, Path: "/api/v1/namespaces/" + b.Namespace + "/pods/" + b.Pod + "/binding"})
	})
	DeferCleanup(func() { proxy.SetWriteFaults(nil); proxy.SetFaults(nil) })
	return failed
}

var internalError = faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)

var _ = Describe("A write for devices that fails once: the pod gets its devices, and no device is lost", func() {
	for name, is := range map[string]write{
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

	for name, is := range map[string]write{"the finalizer of a claim": addFinalizer, "the status of a claim": writeStatus} {
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
	for name, is := range map[string]write{
		"the creation of a claim": createClaim, "the finalizer of a claim": addFinalizer, "the status of a claim": writeStatus,
		"the status of the pod": writePod, "the Binding": bindPod,
	} {
		for when, commits := range map[string]bool{"before": false, "after": true} {
			It(when+" "+name, specTimeout, func(ctx SpecContext) {
				d := newDeviceWriter(ctx)
				killed := berth
				d.failOnce(is, func() *faultproxy.Fault {
					if !commits {
						killed.Kill()
						return &faultproxy.Fault{}
					}
					return &faultproxy.Fault{Commits: true, Answer: func(w http.ResponseWriter, r *http.Request) {
						killed.Kill()
						faultproxy.Cut(w, r)
					}}
				})
				d.create(ctx, d.pod)
				Eventually(killed.Ended()).Should(BeClosed())
				startBerth(ctx)
				d.expectDevices(ctx)
			})
		}
	}
})
