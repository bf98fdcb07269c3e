package course

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/test/house"
)

// startManager runs a manager in this process, with the rights that are
// shipped.
func startManager(ctx context.Context, election ctrl.Options) *house.House {
	GinkgoHelper()
	cfg, err := house.Account(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	h, err := house.Start(furnished(cfg, election))
	Expect(err).NotTo(HaveOccurred())
	return h
}

// furnished has the players of this suite as plugins, and its writes to pods go
// through theDoor.
func furnished(cfg *rest.Config, election ctrl.Options) house.Options {
	writes := rest.CopyConfig(cfg)
	writes.Wrap(theDoor.wrap)
	return house.Options{Config: cfg, Writes: writes, Registry: registry(), Election: election}
}

// stopManager stops it in the middle of whatever it does: its generations are
// not waited for.
func stopManager() {
	GinkgoHelper()
	Expect(berth.Stop()).To(Succeed())
	served = nil
}
