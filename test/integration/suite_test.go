// Package integration shows the manager at work on a real kube-apiserver and
// etcd, under the ServiceAccount and the roles that config/default ships. One
// control plane serves the whole suite; each theme has a file of its own.
package integration

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/controlplane"
)

const (
	// patience bounds every wait for something that must come.
	patience = 30 * time.Second
	// pulse is how often it is looked for.
	pulse = 50 * time.Millisecond
)

var (
	cp     *controlplane.ControlPlane
	admin  client.Client
	scheme = runtime.NewScheme()
	// house is the manager that runs now.
	house *manager
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "integration")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())

	var err error
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: []string{
		// Nodes come as they are written: nobody is here to find them ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// A field that the API server drops cannot be held against a pod.
		"--feature-gates=GenericWorkload=true",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })

	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.InstallCRDs(ctx, filepath.Join(root, "config", "crd"))).To(Succeed())
	_, err = cp.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize", filepath.Join(root, "config", "default"))
	Expect(err).NotTo(HaveOccurred())

	admin, err = client.New(cp.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	house = startManager(ctx)
	DeferCleanup(func() { house.stop() })
}, NodeTimeout(15*time.Minute))

// kubectl runs as the administrator. The error holds what kubectl said.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return cp.Kubectl(ctx, nil, args...)
}
