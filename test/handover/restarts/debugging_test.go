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

var _ = Describe("The debug endpoints of a manager", func() {
	const name = "debugging"
	var m *operator.Manager
	var proxy *faultproxy.Proxy
	var released chan struct{}
	var unprivileged, debugger string
	pod := func(pod string) *corev1.Pod {
		p := fixture.Pod(name + "/" + pod).SchedulerName(name).Obj()
		p.UID = ""
		p.Spec.Containers = []corev1.Container{{Name: "app", Image: "none", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "swordfish"}}}}
		return p
	}

	BeforeEach(func(ctx SpecContext) {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		// No namespace controller runs, and the next spec would hold a pod that is left.
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(0))).To(Succeed())
		})
		node := fixture.Node("of-"+name).Capacity("cpu", "8", "memory", "8Gi", "pods", "2").Obj()
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
		unprivileged, debugger = account(ctx, name, "unprivileged"), account(ctx, name, "debugger")
		may := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-debugger-role"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: "debugger"}},
		}
		Expect(admin.Create(ctx, may)).To(Succeed())
		cfg, err := operator.AccountConfig(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		proxy, err = faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Stop)
		released = make(chan struct{})
		proxy.SetFaults(func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Pod == "bound" {
				return nil
			}
			return &faultproxy.Fault{Hold: released, Commits: true}
		})
		kubeconfig, err := cp.WriteKubeconfig("proxy", proxy.Config(cfg))
		Expect(err).NotTo(HaveOccurred())
		m = startManager(ctx, "--metrics-secure", "--kubeconfig="+kubeconfig)
		Expect(operator.ApplyProfile(ctx, cp, name, v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		})
		_, err = operator.UntilProgrammed(ctx, cp, name)
		Expect(err).NotTo(HaveOccurred())
	})

	It("require a permission, and show a bound pod, an assumed one and a pending one", twoMinutes, func(ctx SpecContext) {
		bound, assumed, pending := pod("bound"), pod("assumed"), pod("pending")
		Expect(admin.Create(ctx, bound)).To(Succeed())
		Eventually(scheduledCondition).WithArguments(ctx, bound).Should(HaveField("Status", corev1.ConditionTrue))
		Expect(admin.Create(ctx, assumed)).To(Succeed())
		Eventually(proxy.Bindings).Should(ContainElement(SatisfyAll(HaveField("Pod", "assumed"), HaveField("Delayed", true))))
		Expect(admin.Create(ctx, pending)).To(Succeed())
		Eventually(scheduledCondition).WithArguments(ctx, pending).Should(HaveField("Reason", corev1.PodReasonUnschedulable))

		By("permissions")
		url := "https://" + m.Metrics + "/debug/berth/"
		Eventually(request).WithArguments(ctx, http.MethodGet, url, debugger).Should(HavePrefix("200 "), "the manager generates its key first")
		for _, view := range []string{"", "queue", "cache", "order", "generations", "equivalence-cache", "compare"} {
			Expect(request(ctx, http.MethodGet, url+view, "")).To(HavePrefix("401 "), view)
			Expect(request(ctx, http.MethodGet, url+view, unprivileged)).To(HavePrefix("403 "), view)
			Expect(request(ctx, http.MethodGet, url+view, debugger)).To(SatisfyAll(HavePrefix("200 "), Not(ContainSubstring("swordfish"))), view)
		}
		Expect(request(ctx, http.MethodDelete, url+"queue", debugger)).To(HavePrefix("403 "))
		Expect(request(ctx, http.MethodGet, "https://"+m.Metrics+"/metrics", debugger)).To(HavePrefix("403 "), "metrics need another permission")

		By("the queue")
		var queue debug.QueueDump
		readView(ctx, url+"queue", debugger, &queue)
		Expect(queue.Pods).To(ConsistOf(
			SatisfyAll(HaveField("Name", "assumed"), HaveField("UID", assumed.UID), HaveField("Place", BeEquivalentTo("InFlight"))),
			SatisfyAll(HaveField("Name", "pending"), HaveField("UID", pending.UID), HaveField("Place", BeEquivalentTo("Unschedulable")),
				HaveField("Rejectors", ConsistOf("NodeResourcesFit"))),
		))

		By("the cache")
		var cache debug.CacheDump
		readView(ctx, url+"cache", debugger, &cache)
		Expect(cache.PodsOnNodes).To(BeNumerically(">=", 2), "pods of other specs may be left on their nodes")
		Expect(cache.Assumed).To(ConsistOf(SatisfyAll(HaveField("UID", assumed.UID), HaveField("Node", "of-"+name))))
		Expect(cache.Nodes).To(ContainElement(SatisfyAll(HaveField("Name", "of-"+name), HaveField("Pods", 2))))

		By("the node order")
		var order debug.NodeOrder
		readView(ctx, url+"order", debugger, &order)
		// The cache keeps the entry of a deleted node while pods of other specs are on it.
		var nodes corev1.NodeList
		Expect(admin.List(ctx, &nodes)).To(Succeed())
		var names []string
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		Expect(names).To(ContainElement("of-" + name))
		Expect(order.Nodes).To(ConsistOf(names))

		By("the generations and the equivalence cache")
		var generations debug.Generations
		readView(ctx, url+"generations", debugger, &generations)
		Expect(generations.Profiles).To(ContainElement(SatisfyAll(HaveField("Name", name), HaveField("Hash", HaveLen(10)),
			HaveField("References", BeNumerically(">=", 2)), HaveField("AbandonedCalls", 0))))
		var caches debug.EquivalenceCaches
		readView(ctx, url+"equivalence-cache", debugger, &caches)
		Expect(caches.Profiles).To(ContainElement(SatisfyAll(HaveField("Profile", name), HaveField("Enabled", true), HaveField("Classes", BeNumerically(">", 0)))))

		By("the comparison with the API server")
		var compared debug.Comparison
		readView(ctx, url+"compare", debugger, &compared)
		Expect(compared.Differences).To(BeEmpty())
		Expect(compared.Assumed).To(ConsistOf(HaveField("UID", assumed.UID)))
		for _, view := range []string{"queue", "cache", "generations", "equivalence-cache", "compare"} {
			text, err := request(ctx, http.MethodGet, url+view, debugger)
			Expect(err).NotTo(HaveOccurred())
			GinkgoWriter.Println(view + ":\n" + text)
		}

		close(released)
		Eventually(scheduledCondition).WithArguments(ctx, assumed).Should(HaveField("Status", corev1.ConditionTrue))
		Eventually(func(g Gomega) {
			var later debug.Comparison
			readView(ctx, url+"compare", debugger, &later)
			g.Expect(later.Assumed).To(BeEmpty())
			g.Expect(later.Differences).To(BeEmpty())
		}).Should(Succeed())
	})
})

// account creates a service account without permissions and returns its token.
func account(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, name)
	Expect(err).NotTo(HaveOccurred())
	return cfg.BearerToken
}

// request returns the status and the body of the response.
func request(ctx context.Context, method, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed.
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := secure.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}

// readView reads a view.
func readView(ctx context.Context, url, token string, into any) {
	GinkgoHelper()
	text, err := request(ctx, http.MethodGet, url+"?format=json", token)
	Expect(err).NotTo(HaveOccurred())
	Expect(text).To(HavePrefix("200 "))
	Expect(json.Unmarshal([]byte(text[4:]), into)).To(Succeed())
}
