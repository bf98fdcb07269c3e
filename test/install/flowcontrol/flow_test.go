package flowcontrol

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	forLease   = "berth-leader-election"
	forBinding = "berth-scheduling"
	forAll     = "service-accounts" // built in
)

var _ = Describe("An API server that others keep busy", func() {
	It("serves the Lease and the Bindings of Berth before them", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		By("a manager that leads, and a pod that is bound")
		config, err := operator.AccountConfig(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		classes := new(classes)
		config.Wrap(classes.record)
		manager, err := operator.Run(config, operator.ShortLease)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(manager.Stop)
		apitest.Created(ctx, admin, fixture.Node("n1").Capacity("cpu", "4", "pods", "110").Obj())
		Expect(operator.ApplyProfile(ctx, cp, "busy", v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		_, err = operator.UntilProgrammed(ctx, cp, "busy")
		Expect(err).NotTo(HaveOccurred())
		admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/before").SchedulerName("busy")))

		By("a crowd that fills what service accounts share")
		flood(ctx)
		Eventually(queued).WithArguments(ctx, "workload-low").Should(BeNumerically(">", crowd/2))

		By("the Lease is renewed, by the same leader")
		holder, transitions, renewed := lease(ctx)
		for range 5 {
			last := renewed
			Eventually(func() metav1.MicroTime {
				_, _, renewed = lease(ctx)
				return renewed
			}).ShouldNot(Equal(last), "the Lease is not renewed")
		}

		By("pods are bound, also one that had to be refused first")
		for _, name := range []string{"first", "second", "third"} {
			admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/"+name).SchedulerName("busy")))
		}
		large := admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("busy").Requests("cpu", "8"))
		Eventually(admin.Standing(ctx, large)).Should(HavePrefix("False Unschedulable"))
		apitest.Created(ctx, admin, fixture.Node("n2").Capacity("cpu", "16", "pods", "110").Obj())
		admin.ExpectBound(ctx, large)

		By("all that while the crowd was there, and nobody else led")
		Expect(queued(ctx, "workload-low")).To(BeNumerically(">", crowd/2))
		nowHolder, nowTransitions, _ := lease(ctx)
		Expect(nowHolder).To(Equal(holder))
		Expect(nowTransitions).To(Equal(transitions))
		Expect(manager.Ended).NotTo(BeClosed())

		By("each request by the schema that is for it")
		got := classes.names(ctx)
		for request, want := range map[string]string{
			"GET leases": forLease, "PUT leases": forLease,
			"GET pods": forBinding, "POST pods/binding": forBinding, "PATCH pods/status": forBinding,
			"GET nodes": forBinding, "GET persistentvolumes": forBinding, "GET persistentvolumeclaims": forBinding,
			"PUT configmaps": forBinding, // the journal
			"GET services":   forAll, "PATCH schedulingprofiles/status": forAll, "POST controllerrevisions": forAll,
		} {
			Expect(got).To(HaveKeyWithValue(request, []string{want}), "requests that were seen: %v", slices.Sorted(maps.Keys(got)))
		}
	})
})

// lease is the leader's Lease.
func lease(ctx context.Context) (holder string, transitions int32, renewed metav1.MicroTime) {
	GinkgoHelper()
	l, err := cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return *l.Spec.HolderIdentity, *l.Spec.LeaseTransitions, *l.Spec.RenewTime
}

// classes are the FlowSchemas by which an API server classed a client's requests, as it
// said in its answers.
type classes struct {
	mu  sync.Mutex
	all map[string]map[types.UID]bool // method and resource → FlowSchemas
}

// record is a wrapper of a client's transport.
func (c *classes) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			c.add(r.Method+" "+resource(r.URL.Path), types.UID(answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)))
		}
		return answer, err
	})
}

func (c *classes) add(request string, schema types.UID) {
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

// names are the names of the schemas, in their order.
func (c *classes) names(ctx context.Context) map[string][]string {
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

// resource is what a path of the API is about, such as pods/binding.
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
