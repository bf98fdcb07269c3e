// Package swap plays the table of a hot swap, test/support/swapmatrix, on a real
// kube-apiserver: a pod is put into a place, its profile changes, and all the
// while other pods of that profile come. README.md says which cells are played
// and how each of its five assertions is read from outside.
package swap

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/informers"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// patience bounds every wait for something that must come; a backoff of ten
	// seconds is among it.
	patience = 30 * time.Second
	// pulse is how often it is looked for.
	pulse = 20 * time.Millisecond
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// berth is the manager; its Bindings come by bindings.
	berth    *operator.InProcess
	bindings *faultproxy.Proxy
	seen     = &witness{}
	stops    = &stopper{}
)

func TestSwap(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "swap")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)

	var err error
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, fixture.Node("n1").Obj())).To(Succeed())
	watch := informers.NewSharedInformerFactory(cp.Client(), 0)
	seen.register(watch)
	ended := make(chan struct{})
	DeferCleanup(func() { close(ended); watch.Shutdown() })
	watch.Start(ended)

	cfg, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	bindings, err = faultproxy.Start(cfg)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(bindings.Stop)
	bindings.Do(holdUp)
	berth, err = operator.Run(cfg, nil, manager.WithWriteConfig(bindings.Config(cfg)), manager.WithPlugins(players()...),
		manager.WithLogger(logr.New(&sink{LogSink: ctrl.Log.GetSink(), stops: stops})))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(berth.Stop()).To(Succeed()) })
	Eventually(berth.Elected()).Should(BeClosed())
}, NodeTimeout(15*time.Minute))
