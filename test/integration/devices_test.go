package integration

import (
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
)

// extendedResourcesSince is the minor version of Kubernetes from which DeviceClasses back
// extended resources by default.
const extendedResourcesSince = 36

// Pods with devices have scenarios of their own; here they use each permission of Berth.
var _ = Describe("A pod with a claim and an extended resource", Ordered, func() {
	var proxy *faultproxy.Proxy

	BeforeAll(func(ctx SpecContext) {
		if serverMinor < extendedResourcesSince {
			Skip("no DeviceClass backs an extended resource")
		}
		stopManager()
		cfg := accountConfig(ctx)
		var err error
		proxy, err = faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		berth = runManager(cfg, nil, suiteOptions(manager.WithWriteConfig(proxy.Config(cfg)))...)
	}, managerTimeout)
	AfterAll(func(ctx SpecContext) {
		if proxy == nil {
			return
		}
		stopManager()
		proxy.Stop()
		berth = startManager(ctx)
	}, managerTimeout)

	It("gets its devices after a conflict and a failed Binding, which leave nothing behind", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		card, node := "example.com/"+env.namespace, env.node("n").Obj().Name
		class := fixture.DeviceClass(env.namespace).ExtendedResource(card).Obj()
		slice := fixture.ResourceSlice(node, env.namespace+".example.com").Device("d0", nil).Device("d1", nil).Obj()
		claim := fixture.ResourceClaim(env.namespace+"/c").Request("r", class.Name).Obj()
		createNode(ctx, env.node("n"))
		for _, object := range []client.Object{class, slice, claim} {
			object.SetUID("")
			object.SetResourceVersion("")
			Expect(admin.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
		}
		kinds := berth.Informers().Resource().V1()
		expectObserved(class, kinds.DeviceClasses().Lister().Get)
		expectObserved(slice, kinds.ResourceSlices().Lister().Get)
		expectObserved(claim, kinds.ResourceClaims().Lister().ResourceClaims(env.namespace).Get)
		conflicts := &atomic.Bool{}
		proxy.SetWriteFaults(func(w faultproxy.Write) *faultproxy.Fault {
			if w.Method == http.MethodPut && strings.HasSuffix(w.Path, "/resourceclaims/c/status") && conflicts.CompareAndSwap(false, true) {
				defer GinkgoRecover()
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
				Expect(admin.Patch(ctx, claim.DeepCopy(), patch)).To(Succeed())
			}
			return nil
		})
		proxy.SetFaults(func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Try > maxRebinds+1 {
				return nil
			}
			return &faultproxy.Fault{Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}
		})
		DeferCleanup(func() { proxy.SetWriteFaults(nil); proxy.SetFaults(nil) })

		pod := createPod(ctx, env.pod(p, "p").ResourceClaim("c").Requests(card, "1").Mutate(func(pod *v1.Pod) {
			one := pod.Spec.Containers[len(pod.Spec.Containers)-1].Resources.Requests
			pod.Spec.Containers[len(pod.Spec.Containers)-1].Resources.Limits = one
		}))
		Eventually(admin.NodeName(ctx, pod)).Should(Equal(node))
		record := boundRecord(ctx, pod)
		Expect(record.Attempts).To(Equal(2))
		Expect(record.Devices).To(ConsistOf(HavePrefix("c="+slice.Spec.Driver+"/"+node+"/d"), HavePrefix(card+"="+slice.Spec.Driver+"/"+node+"/d")))
		Expect(conflicts.Load()).To(BeTrue())
		var claims resourceapi.ResourceClaimList
		Expect(admin.List(ctx, &claims, client.InNamespace(env.namespace))).To(Succeed())
		var given []string
		for i := range claims.Items {
			Expect(claims.Items[i].Status.Allocation).NotTo(BeNil(), claims.Items[i].Name)
			for _, result := range claims.Items[i].Status.Allocation.Devices.Results {
				given = append(given, result.Device)
			}
		}
		Expect(given).To(ConsistOf("d0", "d1"))
	})
})
