package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/model/labels"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// state is a state of the manager in which an alert fires.
type state struct {
	alert, sentence string
	// bring brings the manager into the state. keep, where it is not nil, is called before
	// each scrape.
	bring func(ctx context.Context) (keep func(turn int))
}

// extended is the spec of a profile with an extender that refuses connections: its name is
// this host's own.
const extended = `{extenders: [{name: gone, url: "https://ip6-loopback:1/v1", verbs: {filter: filter}, timeoutSeconds: 1, tls: {caBundle: %s}}]}`

// never is a patch of a CRD after which no object is valid.
const never = `[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations", "value": [{"rule": "false", "message": "not now"}]}]`

// states are in the order of the specs: the last ones disturb the others.
var states = []state{
	{"BerthPodsUnserved", "pods name a scheduler that does not exist", func(ctx context.Context) func(int) {
		admin.Pod(ctx, fixture.Pod("default/lost").SchedulerName("nobody"))
		Eventually(gauge).WithArguments(ctx, "berth_unserved_pods").WithTimeout(90 * time.Second).ShouldNot(BeZero())
		return nil
	}},
	{"BerthPodWaitsLong", "a pod fits no node", func(ctx context.Context) func(int) {
		admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("berth").Requests("cpu", "1000"))
		return nil
	}},
	{"BerthPodsHeld", "a profile is deleted while it has pending pods", func(ctx context.Context) func(int) {
		profile(ctx, "Going", "{}")
		left := admin.Pod(ctx, fixture.Pod("default/left").SchedulerName("going").Requests("cpu", "1000"))
		Eventually(admin.PodScheduled(ctx, left)).Should(HavePrefix("False Unschedulable"))
		_, err := cp.Kubectl(ctx, nil, "delete", "sprof", "going", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		return nil
	}},
	{"BerthProfileNotRunning", "no revision of a profile can run", func(ctx context.Context) func(int) {
		apply(ctx, "{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: idle}, spec: {plugins: {filter: {enabled: [{name: Missing}]}}}}")
		DeferCleanup(func(ctx SpecContext) {
			Expect(cp.Kubectl(ctx, nil, "delete", "sprof", "idle")).Error().NotTo(HaveOccurred())
		})
		return nil
	}},
	{"BerthProfileNotRunning", "the pods of a new profile wait for its approval", func(ctx context.Context) func(int) {
		apply(ctx, "{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: unapproved}, spec: {activation: Manual}}")
		DeferCleanup(func(ctx SpecContext) {
			Expect(cp.Kubectl(ctx, nil, "delete", "sprof", "unapproved")).Error().NotTo(HaveOccurred())
		})
		admin.Pod(ctx, fixture.Pod("default/unapproved").SchedulerName("unapproved"))
		return nil
	}},
	{"BerthProfileNotReady", "a profile names a plugin that does not exist", func(ctx context.Context) func(int) {
		apply(ctx, "{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: wrong}, spec: {plugins: {filter: {enabled: [{name: Missing}]}}}}")
		return nil
	}},
	{"BerthJournalUnavailable", "a user edits the journal of Bindings", func(ctx context.Context) func(int) {
		pod := admin.Pod(ctx, fixture.Pod("default/journaled").SchedulerName("berth").Mutate(func(pod *v1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"journal": "edited"}
		}))
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False Unschedulable"))
		kubectl := func(args ...string) {
			_, err := cp.Kubectl(ctx, nil, args...)
			Expect(err).NotTo(HaveOccurred())
		}
		kubectl("patch", "configmap", "berth-bindings", "--namespace="+operator.Namespace, `--patch={"data": {"holder": "somebody"}}`)
		DeferCleanup(func(ctx SpecContext) {
			_, err := cp.Kubectl(ctx, nil, "delete", "configmap", "berth-bindings", "--namespace="+operator.Namespace)
			Expect(err).NotTo(HaveOccurred())
			admin.ExpectBound(ctx, pod)
		})
		kubectl("label", "node", "n1", "journal=edited")
		return nil
	}},
	{"BerthProfileDegraded", "a plugin registers for events of a resource that is not served", func(ctx context.Context) func(int) {
		profile(ctx, "UnservedEvents", "{plugins: {filter: {enabled: [{name: UnservedEvents}]}}}")
		return nil
	}},
	{"BerthPluginFails", "a plugin panics", func(ctx context.Context) func(int) {
		profile(ctx, "Panics", "{plugins: {filter: {enabled: [{name: Panics}]}}}")
		return func(turn int) { admin.Pod(ctx, failed(fmt.Sprint("default/panics-", turn), "Panics")) }
	}},
	{"BerthEquivalenceCacheWrong", "a plugin reads more than it declares", func(ctx context.Context) func(int) {
		profile(ctx, "WrongReads", "{plugins: {filter: {enabled: [{name: WrongReads}]}}}")
		return func(turn int) { admin.Pod(ctx, failed(fmt.Sprint("default/wrong-reads-", turn), "WrongReads")) }
	}},
	{"BerthPodsOverlooked", "a plugin does not register for the events that help its pods", func(ctx context.Context) func(int) {
		profile(ctx, "WrongEvents", "{plugins: {preFilter: {enabled: [{name: WrongEvents}]}}, queue: {flushAfterSeconds: 1}}")
		return func(turn int) { admin.Pod(ctx, failed(fmt.Sprint("default/wrong-events-", turn), "WrongEvents")) }
	}},
	{"BerthExtenderFails", "an extender cannot be reached", func(ctx context.Context) func(int) {
		profile(ctx, "Extended", fmt.Sprintf(extended, authority()))
		return func(turn int) {
			admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/extended-", turn)).SchedulerName("extended"))
		}
	}},
	{"BerthAttemptsFail", "binding is not allowed", func(ctx context.Context) func(int) {
		unbind(ctx, "berth-binder-role")
		return func(turn int) {
			admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/unbound-", turn)).SchedulerName("berth"))
		}
	}},
	{"BerthStatusWritesFail", "writes of pods are forbidden", refusedWithoutWrites},
	{"BerthEventsDropped", "writes of Events are forbidden", refusedWithoutWrites},
	{"BerthExplanationsDropped", "the API server refuses every SchedulingDecision", func(ctx context.Context) func(int) {
		_, err := cp.Kubectl(ctx, nil, "patch", "crd", "schedulingdecisions.berth.dev", "--type=json", "--patch="+never)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			_, err := cp.Kubectl(ctx, nil, "apply", "--server-side", "--force-conflicts", "--kustomize", filepath.Join(root, "config", "crd"))
			Expect(err).NotTo(HaveOccurred())
		})
		return func(turn int) {
			admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/unexplained-", turn)).SchedulerName("berth").Requests("cpu", "1000"))
		}
	}},
	{"BerthRequestsFail", "the API server fails", func(ctx context.Context) func(int) {
		proxy.SetFaults(func(faultproxy.Binding) *faultproxy.Fault {
			return &faultproxy.Fault{Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}
		})
		DeferCleanup(func() { proxy.SetFaults(nil) })
		return func(turn int) {
			admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/failed-", turn)).SchedulerName("berth"))
		}
	}},
	{"BerthRequestsSlow", "the API server is slow", func(ctx context.Context) func(int) {
		proxy.SetFaults(func(faultproxy.Binding) *faultproxy.Fault {
			late := make(chan struct{})
			time.AfterFunc(1500*time.Millisecond, func() { close(late) })
			return &faultproxy.Fault{Hold: late, Commits: true}
		})
		DeferCleanup(func() { proxy.SetFaults(nil) })
		return func(turn int) {
			admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/slowly-", turn)).SchedulerName("berth"))
		}
	}},
	{"BerthQueueGrows", "a plugin is slow while pods are created", func(ctx context.Context) func(int) {
		profile(ctx, "Slow", "{plugins: {filter: {enabled: [{name: Slow}]}}}")
		for i := range 120 {
			admin.Pod(ctx, failed(fmt.Sprint("default/many-", i), "Slow"))
		}
		return func(turn int) { admin.Pod(ctx, failed(fmt.Sprint("default/more-", turn), "Slow")) }
	}},
	{"BerthNotScheduling", "the loop is blocked", func(ctx context.Context) func(int) {
		for i := range 10 {
			admin.Pod(ctx, failed(fmt.Sprint("default/stuck-", i), "Slow"))
		}
		return nil
	}},
	{"BerthRestarts", "the manager ends again and again", func(ctx context.Context) func(int) {
		return func(int) {
			cp.End(manager.Process)
			startManager(ctx)
		}
	}},
	{"BerthNoLeader", "another process holds the Lease", func(ctx context.Context) func(int) {
		cp.End(manager.Process)
		leases := cp.Client().CoordinationV1().Leases(operator.Namespace)
		Expect(leases.Delete(ctx, "berth-manager", metav1.DeleteOptions{})).To(Succeed())
		_, err := leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "berth-manager"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("somebody"), LeaseDurationSeconds: new(int32(3600)),
				AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		startManager(ctx)
		return nil
	}},
	{"BerthDown", "the manager has ended", func(context.Context) func(int) {
		cp.End(manager.Process)
		manager = nil
		return nil
	}},
}

// refusedWithoutWrites has pods refused by a manager that may not write about them.
func refusedWithoutWrites(ctx context.Context) func(int) {
	unbind(ctx, "berth-manager-role")
	round := time.Now().UnixNano()
	return func(turn int) {
		admin.Pod(ctx, fixture.Pod(fmt.Sprintf("default/unheard-%d-%d", round, turn)).SchedulerName("berth").Requests("cpu", "1000"))
	}
}

// authority returns a certificate authority as a caBundle.
func authority() string {
	GinkgoHelper()
	certificate, _, err := certutil.GenerateSelfSignedCertKey("nobody.test", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	return base64.StdEncoding.EncodeToString(certificate)
}

// gauge returns the sum of a metric's series in a scrape.
func gauge(ctx context.Context, name string) (sum float64, err error) {
	_, text, err := manager.Scrape(ctx, token)
	if err != nil {
		return 0, err
	}
	err = parse(text, func(l labels.Labels, f float64) {
		if l.Get("__name__") == name {
			sum += f
		}
	})
	return sum, err
}

// unbind takes a role from the manager, until the spec ends.
func unbind(ctx context.Context, role string) {
	GinkgoHelper()
	Expect(cp.Client().RbacV1().ClusterRoleBindings().Delete(ctx, role, metav1.DeleteOptions{})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		_, err := cp.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize", filepath.Join(root, "test", "support", "operator", "install"))
		Expect(err).NotTo(HaveOccurred())
	})
}
