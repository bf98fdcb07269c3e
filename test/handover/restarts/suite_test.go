package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp    *controlplane.ControlPlane
	admin client.Client
	// manager is the binary.
	manager string
)

// twoMinutes bounds a spec.
var twoMinutes = SpecTimeout(2 * time.Minute)

func TestRestarts(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "restarts")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))

// kubeconfigOf writes cfg down for a child process.
func kubeconfigOf(cfg *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {Token: cfg.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}

// starts starts a manager that is ended with the spec, and shows its log where that
// fails.
func starts(ctx SpecContext, flags ...string) *operator.Manager {
	GinkgoHelper()
	m, err := operator.Start(ctx, cp, manager, flags...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		cp.End(m.Process)
		if log, err := os.ReadFile(m.Log()); err == nil && CurrentSpecReport().Failed() {
			GinkgoWriter.Println(string(log))
		}
	})
	Expect(m.Until(ctx, m.Ready)).To(Succeed())
	return m
}
