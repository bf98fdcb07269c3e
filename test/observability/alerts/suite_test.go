package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	minutes = SpecTimeout(3 * time.Minute)
)

func TestMain(m *testing.M) {
	operator.Main(m, main)
}

func TestAlerts(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "alerts")
}

var (
	root  string
	cp    *controlplane.ControlPlane
	admin apitest.API
	// proxy is between the manager and the API server.
	proxy   *faultproxy.Proxy
	manager *operator.Manager
	token   string
	server  *prometheus
	alerts  []*alert
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	alerts, err = readAlerts(filepath.Join(root, "config", "prometheus", "alerts", "rules.yaml"))
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	proxy, err = faultproxy.Start(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { proxy.Stop() })
	token, err = operator.AccountWith(ctx, cp, "prometheus", operator.ScrapeRole)
	Expect(err).NotTo(HaveOccurred())
	server = newPrometheus()
	for _, name := range []string{"n1", "n2"} {
		node := fixture.Node(name).Capacity("cpu", "100", "pods", "1000").Obj()
		_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	startManager(ctx)
}, NodeTimeout(15*time.Minute))

// startManager starts a manager that reaches the API server through proxy.
func startManager(ctx context.Context) {
	GinkgoHelper()
	account, err := cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	proxied := proxy.Config(account)
	config := clientcmdapi.NewConfig()
	config.Clusters["berth"] = &clientcmdapi.Cluster{Server: proxied.Host, CertificateAuthorityData: proxied.CAData}
	config.AuthInfos["berth"] = &clientcmdapi.AuthInfo{Token: proxied.BearerToken}
	config.Contexts["berth"] = &clientcmdapi.Context{Cluster: "berth", AuthInfo: "berth"}
	config.CurrentContext = "berth"
	kubeconfig := filepath.Join(cp.Dir(), "proxy.kubeconfig")
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())

	manager, err = operator.StartSelf(ctx, cp, "--kubeconfig="+kubeconfig, "--enable-extenders", "--leader-elect-retry-period=200ms")
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() ([]byte, error) {
		_, text, err := manager.Scrape(ctx, token)
		return text, err
	}).Should(ContainSubstring("scheduler_pending_pods"))
}

// scrape scrapes the manager, if it runs, and evaluates all alerts.
func scrape(ctx context.Context) {
	GinkgoHelper()
	var text []byte
	if manager != nil {
		var err error
		_, text, err = manager.Scrape(ctx, token)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(server.scraped("berth-0", text)).To(Succeed())
	for _, a := range alerts {
		Expect(a.evaluate(ctx, server)).To(Succeed())
	}
}

func apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, strings.NewReader(manifest), "apply", "--server-side", "--force-conflicts", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// profile creates a profile with one of the plugins of this binary, and waits until it runs.
// That plugin fails the pods of the profile that failed builds.
func profile(ctx context.Context, plugin, spec string) {
	GinkgoHelper()
	name := strings.ToLower(plugin)
	apply(ctx, "{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: "+name+"}, spec: "+spec+"}")
	_, err := operator.UntilProgrammed(ctx, cp, name)
	Expect(err).NotTo(HaveOccurred())
}

func failed(key, plugin string) *fixture.PodBuilder {
	return fixture.Pod(key).SchedulerName(strings.ToLower(plugin)).Label("fails", plugin)
}
