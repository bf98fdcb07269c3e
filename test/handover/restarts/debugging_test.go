package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/debug"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("Looking into a manager", func() {
	const name = "looking"
	var m *operator.Manager
	var proxy *faultproxy.Proxy
	var released chan struct{}
	var nobody, looker string
	pod := func(pod string) *corev1.Pod {
		p := fixture.Pod(name + "/" + pod).SchedulerName(name).Obj()
		p.UID = ""
		p.Spec.Containers = []corev1.Container{{Name: "app", Image: "none", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "swordfish"}}}}
		return p
	}

	BeforeEach(func(ctx SpecContext) {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		// No namespace controller runs, and a pod that stays is held for the next spec.
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(0))).To(Succeed())
		})
		node := fixture.Node("of-"+name).Capacity("cpu", "8", "memory", "8Gi", "pods", "2").Obj()
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
		nobody, looker = account(ctx, name, "nobody"), account(ctx, name, "looker")
		may := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-debugger-role"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: "looker"}},
		}
		Expect(admin.Create(ctx, may)).To(Succeed())
		cfg, err := operator.AccountConfig(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		proxy, err = faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Stop)
		released = make(chan struct{})
		proxy.Do(func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Pod == "runs" {
				return nil
			}
			return &faultproxy.Fault{Hold: released, Commits: true}
		})
		m = starts(ctx, "--metrics-secure", "--kubeconfig="+kubeconfigOf(proxy.Config(cfg)))
		Expect(operator.ApplyProfile(ctx, cp, name, v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		})
		_, err = operator.UntilProgrammed(ctx, cp, name)
		Expect(err).NotTo(HaveOccurred())
	})

	It("is for who may, and shows a pod that is bound, one that is assumed and one that waits", twoMinutes, func(ctx SpecContext) {
		runs, goes, waits := pod("runs"), pod("goes"), pod("waits")
		Expect(admin.Create(ctx, runs)).To(Succeed())
		Eventually(conditionOf).WithArguments(ctx, runs).Should(HaveField("Status", corev1.ConditionTrue))
		Expect(admin.Create(ctx, goes)).To(Succeed())
		Eventually(proxy.Bindings).Should(ContainElement(SatisfyAll(HaveField("Pod", "goes"), HaveField("Held", true))))
		Expect(admin.Create(ctx, waits)).To(Succeed())
		Eventually(conditionOf).WithArguments(ctx, waits).Should(HaveField("Reason", corev1.PodReasonUnschedulable))

		By("who may look")
		url := "https://" + m.Metrics + "/debug/berth/"
		Eventually(ask).WithArguments(ctx, http.MethodGet, url, looker).Should(HavePrefix("200 "), "it makes a key first")
		for _, view := range []string{"", "queue", "cache", "order", "generations", "equivalence-cache", "compare"} {
			Expect(ask(ctx, http.MethodGet, url+view, "")).To(HavePrefix("401 "), view)
			Expect(ask(ctx, http.MethodGet, url+view, nobody)).To(HavePrefix("403 "), view)
			Expect(ask(ctx, http.MethodGet, url+view, looker)).To(SatisfyAll(HavePrefix("200 "), Not(ContainSubstring("swordfish"))), view)
		}
		Expect(ask(ctx, http.MethodDelete, url+"queue", looker)).To(HavePrefix("403 "))
		Expect(ask(ctx, http.MethodGet, "https://"+m.Metrics+"/metrics", looker)).To(HavePrefix("403 "), "that is another right")

		By("who waits")
		var queue debug.QueueDump
		see(ctx, url+"queue", looker, &queue)
		Expect(queue.Pods).To(ConsistOf(
			SatisfyAll(HaveField("Name", "goes"), HaveField("UID", goes.UID), HaveField("Place", BeEquivalentTo("InFlight"))),
			SatisfyAll(HaveField("Name", "waits"), HaveField("UID", waits.UID), HaveField("Place", BeEquivalentTo("Unschedulable")),
				HaveField("Rejectors", ConsistOf("NodeResourcesFit"))),
		))

		By("what is where")
		var cache debug.CacheDump
		see(ctx, url+"cache", looker, &cache)
		Expect(cache.PodsOnNodes).To(BeNumerically(">=", 2), "other specs may have left some on nodes of theirs")
		Expect(cache.Assumed).To(ConsistOf(SatisfyAll(HaveField("UID", goes.UID), HaveField("Node", "of-"+name))))
		Expect(cache.Nodes).To(ContainElement(SatisfyAll(HaveField("Name", "of-"+name), HaveField("Pods", 2))))

		By("in which order nodes are tried")
		var order debug.NodeOrder
		see(ctx, url+"order", looker, &order)
		// The cache keeps an entry of a node that is deleted while pods of other specs are on it.
		var nodes corev1.NodeList
		Expect(admin.List(ctx, &nodes)).To(Succeed())
		var names []string
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		Expect(names).To(ContainElement("of-" + name))
		Expect(order.Nodes).To(ConsistOf(names))

		By("what runs, and what is remembered of it")
		var generations debug.Generations
		see(ctx, url+"generations", looker, &generations)
		Expect(generations.Profiles).To(ContainElement(SatisfyAll(HaveField("Name", name), HaveField("Hash", HaveLen(10)),
			HaveField("References", BeNumerically(">=", 2)), HaveField("AbandonedCalls", 0))))
		var memos debug.EquivalenceCaches
		see(ctx, url+"equivalence-cache", looker, &memos)
		Expect(memos.Profiles).To(ContainElement(SatisfyAll(HaveField("Profile", name), HaveField("Enabled", true), HaveField("Classes", BeNumerically(">", 0)))))

		By("whether the API server has the same")
		var compared debug.Comparison
		see(ctx, url+"compare", looker, &compared)
		Expect(compared.Differences).To(BeEmpty())
		Expect(compared.Assumed).To(ConsistOf(HaveField("UID", goes.UID)))
		for _, view := range []string{"queue", "cache", "generations", "equivalence-cache", "compare"} {
			text, err := ask(ctx, http.MethodGet, url+view, looker)
			Expect(err).NotTo(HaveOccurred())
			GinkgoWriter.Println(view + ":\n" + text)
		}

		close(released)
		Eventually(conditionOf).WithArguments(ctx, goes).Should(HaveField("Status", corev1.ConditionTrue))
		Eventually(func(g Gomega) {
			var later debug.Comparison
			see(ctx, url+"compare", looker, &later)
			g.Expect(later.Assumed).To(BeEmpty())
			g.Expect(later.Differences).To(BeEmpty())
		}).Should(Succeed())
	})
})

// account makes one without any right, and returns its token.
func account(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, name)
	Expect(err).NotTo(HaveOccurred())
	return cfg.BearerToken
}

// ask is the answer's status and body.
func ask(ctx context.Context, method, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// Its certificate is its own.
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := secure.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}

// see reads a view.
func see(ctx context.Context, url, token string, into any) {
	GinkgoHelper()
	text, err := ask(ctx, http.MethodGet, url+"?format=json", token)
	Expect(err).NotTo(HaveOccurred())
	Expect(text).To(HavePrefix("200 "))
	Expect(json.Unmarshal([]byte(text[4:]), into)).To(Succeed())
}
