// Package volumes plays scenarios of pods and their claims on a real
// kube-apiserver, with Kubernetes' own controller of volumes beside it. Berth is
// the manager that ships, a process with the rights of its ServiceAccount.
package volumes

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// patience bounds every wait for something that must come, pulse is how
	// often it is looked for.
	patience = 60 * time.Second
	pulse    = 50 * time.Millisecond
	// usual is the profile that scenarios use.
	usual = "usual"
)

// minutes bounds one scenario.
const minutes = SpecTimeout(4 * time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
)

func TestVolumes(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "volumes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)
	binary, err := operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true,
		// Who looks after nodes would find that none is alive.
		Controllers: []string{
			"persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
			"ephemeral-volume-controller", "serviceaccount-controller",
		},
		APIServerArgs: []string{
			// Nodes come as they are written: nobody is here to find them ready.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	config := rest.CopyConfig(cp.Config())
	config.QPS = -1
	admin.Client, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	house, err := operator.Start(ctx, cp, binary, "--default-profile=")
	Expect(err).NotTo(HaveOccurred())
	Expect(house.Until(ctx, house.Ready)).To(Succeed())
	profile(ctx, 3)
}, NodeTimeout(15*time.Minute))

// profile has the profile name that many of the best nodes, which decides
// nothing: it is swapped for another that decides the same.
func profile(ctx context.Context, topScores int32) {
	GinkgoHelper()
	var spec v1alpha1.SchedulingProfileSpec
	// A pod that was refused is left to the events.
	spec.Queue.FlushAfterSeconds = new(int32(0))
	spec.Decisions.TopScores = &topScores
	Expect(operator.ApplyProfile(ctx, cp, usual, spec)).To(Succeed())
	Expect(operator.UntilProgrammed(ctx, cp, usual)).Error().NotTo(HaveOccurred())
}
