// Package flowcontrol tests that config/components/flow-control keeps Berth's requests
// apart from many other requests that occupy the API server.
package flowcontrol

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
)

func TestFlowControl(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "flow control")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	// A tenth of the defaults, so that few long requests occupy the API server.
	cp, err = operator.Cluster(ctx, "--max-requests-inflight=40", "--max-mutating-requests-inflight=20")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize="+filepath.Join(root, "test", "install", "flowcontrol", "install"))
	Expect(err).NotTo(HaveOccurred())
	// The API server judges a FlowSchema when it begins to use it.
	_, err = cp.Kubectl(ctx, nil, "wait", "--for=condition=Dangling=False", "--timeout=60s", "flowschema/"+leaseSchema, "flowschema/"+bindingSchema)
	Expect(err).NotTo(HaveOccurred())
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))

const (
	leaseSchema   = "berth-leader-election"
	bindingSchema = "berth-scheduling"
	defaultSchema = "service-accounts" // built in
)

var _ = Describe("An API server that other clients keep busy", func() {
	It("serves the Lease and the Bindings of Berth first", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		By("a manager leads, and a pod is bound")
		config, err := operator.AccountConfig(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		classes := new(schemaRecorder)
		config.Wrap(classes.record)
		manager, err := operator.Run(config, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(manager.Stop)
		apitest.Created(ctx, admin, fixture.Node("n1").Capacity("cpu", "4", "pods", "110").Obj())
		Expect(operator.ApplyProfile(ctx, cp, "busy", v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		_, err = operator.UntilProgrammed(ctx, cp, "busy")
		Expect(err).NotTo(HaveOccurred())
		admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/before").SchedulerName("busy")))

		By("other requests use up the share of service accounts")
		startFlood(ctx)
		Eventually(queuedRequests).WithArguments(ctx, "workload-low").Should(BeNumerically(">", floodRequests/2))

		By("the same leader renews the Lease")
		holder, transitions, renewed := lease(ctx)
		for range 5 {
			last := renewed
			Eventually(func() metav1.MicroTime {
				_, _, renewed = lease(ctx)
				return renewed
			}).ShouldNot(Equal(last), "the Lease is not renewed")
		}

		By("pods are bound, also one that was unschedulable first")
		for _, name := range []string{"first", "second", "third"} {
			admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/"+name).SchedulerName("busy")))
		}
		large := admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("busy").Requests("cpu", "8"))
		Eventually(admin.PodScheduled(ctx, large)).Should(HavePrefix("False Unschedulable"))
		apitest.Created(ctx, admin, fixture.Node("n2").Capacity("cpu", "16", "pods", "110").Obj())
		admin.ExpectBound(ctx, large)

		By("a pod is bound for which a device is allocated")
		for _, object := range []client.Object{
			fixture.DeviceClass("card").Obj(),
			fixture.ResourceSlice("n1", "card.example.com").Device("d0", nil).Obj(),
			fixture.ResourceClaim("default/card").Request("card", "card").Obj(),
		} {
			object.SetResourceVersion("")
			apitest.Created(ctx, admin, object)
		}
		admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/device").SchedulerName("busy").ResourceClaim("card")))

		By("the other requests were there all the time, and the leader did not change")
		// Those that began together also time out together, and are sent again.
		Eventually(queuedRequests).WithArguments(ctx, "workload-low").Should(BeNumerically(">", floodRequests/2))
		nowHolder, nowTransitions, _ := lease(ctx)
		Expect(nowHolder).To(Equal(holder))
		Expect(nowTransitions).To(Equal(transitions))
		Expect(manager.Ended).NotTo(BeClosed())

		By("each request has its FlowSchema")
		got := classes.names(ctx)
		for request, want := range map[string]string{
			"GET leases": leaseSchema, "PUT leases": leaseSchema,
			"GET pods": bindingSchema, "POST pods/binding": bindingSchema, "PATCH pods/status": bindingSchema,
			"GET resourceclaims": bindingSchema, "PUT resourceclaims": bindingSchema, "PUT resourceclaims/status": bindingSchema,
			"GET nodes": bindingSchema, "GET persistentvolumes": bindingSchema, "GET persistentvolumeclaims": bindingSchema,
			"PUT configmaps": bindingSchema, // the journal
			"GET services":   defaultSchema, "PATCH schedulingprofiles/status": defaultSchema, "POST controllerrevisions": defaultSchema,
		} {
			Expect(got).To(HaveKeyWithValue(request, []string{want}), "observed requests: %v", slices.Sorted(maps.Keys(got)))
		}
	})
})

// lease returns the holder, the transitions and the renewal of the Lease.
func lease(ctx context.Context) (holder string, transitions int32, renewed metav1.MicroTime) {
	GinkgoHelper()
	l, err := cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return *l.Spec.HolderIdentity, *l.Spec.LeaseTransitions, *l.Spec.RenewTime
}

// schemaRecorder records the FlowSchemas in the API server's responses to a client.
type schemaRecorder struct {
	mu  sync.Mutex
	all map[string]map[types.UID]bool // method and resource → FlowSchemas
}

// record wraps a client's transport.
func (c *schemaRecorder) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			c.add(r.Method+" "+resource(r.URL.Path), types.UID(answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)))
		}
		return answer, err
	})
}

func (c *schemaRecorder) add(request string, schema types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]map[types.UID]bool{}
	}
	if c.all[request] == nil {
		c.all[request] = map[types.UID]bool{}
	}
	c.all[request][schema] = true
}

// names returns the names of the FlowSchemas by request.
func (c *schemaRecorder) names(ctx context.Context) map[string][]string {
	GinkgoHelper()
	schemas, err := cp.Client().FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	name := map[types.UID]string{}
	for _, s := range schemas.Items {
		name[s.UID] = s.Name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	named := map[string][]string{}
	for request, uids := range c.all {
		for uid := range uids {
			named[request] = append(named[request], name[uid])
		}
		slices.Sort(named[request])
	}
	return named
}

// resource returns the resource of an API path, such as pods/binding.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[min(2, len(parts)):]
	} else {
		parts = parts[min(3, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return path
	case 3:
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
