package placement

import (
	"net/http"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("A manager that starts", Ordered, ContinueOnFailure, func() {
	var (
		config *rest.Config
		proxy  *faultproxy.Proxy
	)

	BeforeAll(func(ctx SpecContext) {
		var err error
		config, err = cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
		Expect(err).NotTo(HaveOccurred())
		proxy, err = faultproxy.Start(config)
		Expect(err).NotTo(HaveOccurred())
		stopManager()
	}, NodeTimeout(patience))
	AfterAll(func(ctx SpecContext) {
		stopManager()
		proxy.Stop()
		startManager(ctx)
	}, NodeTimeout(patience))

	It("counts the pods that were there, and binds those that waited", minute, func(ctx SpecContext) {
		c := aCluster()
		node := fixture.Node("a").Capacity("cpu", "500m", "memory", "500")
		Expect(admin.Create(ctx, node.Obj())).To(Succeed())
		c.nodes++
		for _, name := range []string{"one", "two"} {
			c.create(ctx, asks(name, "200m", "200").On("a").SchedulerName(theirs))
		}
		large := c.create(ctx, asks("large", "200m", "200"))
		small := c.create(ctx, asks("small", "100m", "100"))
		startManager(ctx, "--kubeconfig="+kubeconfig(proxy.Config(config)))
		c.expect(ctx, large, refused("1 Insufficient cpu, 1 Insufficient memory"))
		c.expect(ctx, small, on("a"))
	})

	// From here on the manager comes to the API server through the proxy.
	It("binds a pod by the very pod, not by its name", minute, func(ctx SpecContext) {
		c := aCluster()
		c.comes(ctx, fixture.Node("a"), fixture.Node("b"))
		release := make(chan struct{})
		proxy.Do(func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Pod == "web" && b.Try == 1 {
				return &faultproxy.Fault{Hold: release, Commits: true}
			}
			return nil
		})
		DeferCleanup(func() { proxy.Do(nil) })
		first := c.create(ctx, fixture.Pod("web").NodeSelector(host, "a"))
		Eventually(proxy.Bindings).Should(ContainElement(HaveField("Held", true)))
		admin.Remove(ctx, first)
		second := c.create(ctx, fixture.Pod("web").NodeSelector(host, "b"))
		close(release)

		c.expect(ctx, second, on("b"))
		Eventually(func() (codes []int) {
			for _, b := range proxy.Bindings() {
				if b.Pod == "web" {
					codes = append(codes, b.Code)
				}
			}
			return codes
		}).Should(Equal([]int{http.StatusConflict, http.StatusCreated}))
	})
})

// kubeconfig writes config to a file, for the manager.
func kubeconfig(config *rest.Config) string {
	GinkgoHelper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	path := filepath.Join(cp.Dir(), "proxy.kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}
