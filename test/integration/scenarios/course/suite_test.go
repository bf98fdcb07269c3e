// Package course tests the way of a pod from the queue to its node, and back, on a real
// kube-apiserver. README.md says what each spec shows. Specs run one after the other in an
// empty cluster: the next one begins when the scheduler has nothing of the last.
package course

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// eventuallyTimeout is the timeout of Eventually.
	eventuallyTimeout = 30 * time.Second
	// pollingInterval is how often Eventually polls.
	pollingInterval = 10 * time.Millisecond
	// namespace is the namespace of all pods.
	namespace = "course"
)

// minute is the timeout of a spec.
const minute = SpecTimeout(time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// berth is the manager that runs now.
	berth *operator.InProcess
)

func TestCourse(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "course")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)

	var err error
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })

	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	createPriorityClasses(ctx)
	berth = startManager(ctx)
	DeferCleanup(stopManager)
	createSentinel(ctx)
}, NodeTimeout(15*time.Minute))

// scenarioDone is a chan struct{} that is closed when the spec ends: a plugin that waited
// longer would keep its generation.
var scenarioDone atomic.Value

// Each spec begins when nothing of the one before is left.
var _ = BeforeEach(func(ctx SpecContext) {
	writeGate.reset()
	Eventually(func(g Gomega) { g.Expect(remainingObjects()).To(BeEmpty()) }).Should(Succeed())
	callLog.Take()
	over := make(chan struct{})
	scenarioDone.Store(over)
	DeferCleanup(func() { close(over) })
})

// startManager runs a manager in this process with the shipped permissions and defaults and
// these flags.
func startManager(ctx context.Context, flags ...string) *operator.InProcess {
	GinkgoHelper()
	config, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	m, err := operator.Run(config, flags, suiteOptions(config)...)
	Expect(err).NotTo(HaveOccurred())
	return m
}

// suiteOptions returns options with the plugins of this suite, whose writes to pods go
// through writeGate.
func suiteOptions(config *rest.Config) []manager.Option {
	writes := rest.CopyConfig(config)
	writes.Wrap(writeGate.wrap)
	return []manager.Option{manager.WithWriteConfig(writes), manager.WithPlugins(testPlugins()...)}
}

// stopManager stops the manager without waiting for its generations.
func stopManager() {
	GinkgoHelper()
	Expect(berth.Stop()).To(Succeed())
	servedGenerations = nil
}

// TestMain runs the manager in the processes that StartSelf starts. There PreBind of First
// blocks every pod.
func TestMain(m *testing.M) {
	first.setFuncs(pluginFuncs{})
	second.setFuncs(pluginFuncs{})
	operator.Main(m, func() {
		first.setFuncs(pluginFuncs{preBind: func(ctx context.Context, _ *v1.Pod) *fwk.Status {
			<-ctx.Done()
			return fwk.AsStatus(ctx.Err())
		}})
		config, err := operator.SelfConfig()
		if err != nil {
			panic(err)
		}
		manager.MainWith(suiteOptions(config)...)
	})
}

// startManagerProcess starts a manager in its own process. The suite's own manager must be
// stopped.
func startManagerProcess(ctx SpecContext) *operator.Manager {
	GinkgoHelper()
	child, err := operator.StartSelf(ctx, cp, slices.Concat(operator.SteadyLease, []string{"--default-profile="})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(child.Process) })
	return child
}
