// Package course holds scenarios on a real kube-apiserver: the course of a pod
// from the queue to its node, and back when something comes between. README.md
// is the table of what each shows. A scenario has the cluster to itself: names
// are plain, and the next one begins when the scheduler has forgotten the last.
package course

import (
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// patience bounds every wait for something that must come.
	patience = 30 * time.Second
	// pulse is how often it is looked for.
	pulse = 10 * time.Millisecond
	// scene is the namespace of all pods.
	scene = "scene"
)

// minute bounds one spec.
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
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)

	var err error
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })

	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scene}})).To(Succeed())
	rankClasses(ctx)
	berth = startManager(ctx)
	DeferCleanup(stopManager)
	hireStagehands(ctx)
}, NodeTimeout(15*time.Minute))

// curtain is a chan struct{} that is closed when the scenario is over: a plugin that
// waited longer would keep its generation.
var curtain atomic.Value

// Nobody must meet what the scenario before left behind.
var _ = BeforeEach(func(ctx SpecContext) {
	theDoor.reset()
	Eventually(func(g Gomega) { g.Expect(leftBehind()).To(BeEmpty()) }).Should(Succeed())
	journal.Take()
	over := make(chan struct{})
	curtain.Store(over)
	DeferCleanup(func() { close(over) })
})
