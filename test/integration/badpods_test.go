package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/badinput"
	"github.com/berthdev/berth/test/support/fixture"
)

// A pod that the API server rejects may be stored nevertheless: by an older version, or by
// a client that writes to etcd.
var _ = Describe("An invalid pod in etcd", func() {
	It("is bound or gets a condition, and other pods are bound", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		expectReady(ctx, p) // a trial on invalid pods would reject it
		for i := range 3 {
			createNode(ctx, env.node(fmt.Sprint("n", i)).Capacity("cpu", "64"))
		}
		var bad, good []*v1.Pod
		for i, b := range badinput.Pods() {
			bad = append(bad, smuggled(ctx, env.pod(p, fmt.Sprint("bad", i)).Requests("cpu", "10m"), b))
			good = append(good, createPod(ctx, env.pod(p, fmt.Sprint("good", i)).Requests("cpu", "10m")))
		}
		for i, b := range badinput.Pods() {
			matchEvent := HavePrefix("Normal Scheduled ")
			if b.Message != "" {
				matchEvent = And(HavePrefix("Warning FailedScheduling "), ContainSubstring(b.Message))
			}
			Eventually(podEvents(ctx, bad[i])).Should(ContainElement(matchEvent), b.Description)
			Expect(podEvents(ctx, bad[i])(NewWithT(GinkgoT()))).NotTo(ContainElement(ContainSubstring("panicked")), b.Description)
		}
		admin.ExpectBound(ctx, good...)
	})

	It("that has a node counts there, and other pods are bound", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		expectReady(ctx, p) // a trial on invalid pods would reject it
		full := createNode(ctx, env.node("full").Capacity("cpu", "64"))
		createNode(ctx, env.node("free").Capacity("cpu", "64"))
		for i, b := range badinput.Pods() {
			smuggled(ctx, env.pod(p, fmt.Sprint("bad", i)).Requests("cpu", "10m").On(full.Name), b)
		}
		for i := range 5 {
			admin.ExpectBound(ctx, createPod(ctx, env.pod(p, fmt.Sprint("good", i)).Label("app", "web").Requests("cpu", "10m").
				Spread(fixture.SoftSpreadConstraint(v1.LabelHostname, "app", "web")).
				PreferPodAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")).
				RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db"))))
		}
	})
})

// smuggled writes an invalid pod to etcd.
func smuggled(ctx context.Context, builder *fixture.PodBuilder, b badinput.Pod) *v1.Pod {
	GinkgoHelper()
	pod := builder.UID(string(uuid.NewUUID())).Obj()
	pod.APIVersion, pod.Kind, pod.Status.Phase = "v1", "Pod", v1.PodPending
	b.Bad(pod)
	text, err := json.Marshal(pod)
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.Store(ctx, "/registry/pods/"+pod.Namespace+"/"+pod.Name, text)).To(Succeed(), b.Description)
	DeferCleanup(func(ctx SpecContext) { admin.Remove(ctx, pod) })
	return pod
}

var _ = Describe("A pod at which a plugin", func() {
	It("panics repeatedly is quarantined and counted; others are bound; a change of the pod ends the quarantine", minute, func(ctx SpecContext) {
		env, p, q := newTestEnv(ctx), createProfile(ctx, enableFaulty), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		expectReady(ctx, q)
		odd := createPod(ctx, env.pod(p, "odd").Label("faulty", "panics"))
		for i := range 5 {
			admin.ExpectBound(ctx, createPod(ctx, env.pod(p, fmt.Sprint("p", i))), createPod(ctx, env.pod(q, fmt.Sprint("q", i))))
		}
		Eventually(admin.PodScheduled(ctx, odd)).WithTimeout(40 * time.Second).Should(SatisfyAll(
			ContainSubstring("Quarantined"), ContainSubstring(`plugin "Faulty" panicked repeatedly in Filter: the pod is quarantined until `)))
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.Status.Queue).To(HaveField("Quarantined", BeEquivalentTo(1)))
		}).Should(Succeed())
		apitest.Change(ctx, admin, odd, func(pod *v1.Pod) { pod.Labels["faulty"] = "" })
		admin.ExpectBound(ctx, odd)
	})

	It("hangs gets a condition; others are bound; the late result of the plugin is discarded", minute, func(ctx SpecContext) {
		env, p, q := newTestEnv(ctx), createProfile(ctx, enableFaulty), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		expectReady(ctx, q)
		odd := createPod(ctx, env.pod(p, "odd").Label("faulty", "hangs"))
		Eventually(admin.PodScheduled(ctx, odd)).WithTimeout(30 * time.Second).Should(SatisfyAll(
			ContainSubstring(v1.PodReasonSchedulerError), ContainSubstring(`plugin "Faulty" did not come back from Filter within 10s`)))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "a")), createPod(ctx, env.pod(q, "b")))
		Consistently(func() string {
			_ = admin.Get(ctx, client.ObjectKeyFromObject(odd), odd)
			return odd.Spec.NodeName
		}).WithTimeout(2 * time.Second).Should(BeEmpty())
		apitest.Change(ctx, admin, odd, func(pod *v1.Pod) { pod.Labels["faulty"] = "" })
		admin.ExpectBound(ctx, odd)
	})
})
