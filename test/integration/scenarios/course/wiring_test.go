package course

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/operator"
)

// startManager runs a manager in this process, with the rights and, but for flags, the
// defaults that are shipped.
func startManager(ctx context.Context, flags ...string) *operator.InProcess {
	GinkgoHelper()
	config, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	m, err := operator.Run(config, flags, suiteOptions(config)...)
	Expect(err).NotTo(HaveOccurred())
	return m
}

// suiteOptions add the players of this suite as plugins, and send writes to pods through
// theDoor.
func suiteOptions(config *rest.Config) []manager.Option {
	writes := rest.CopyConfig(config)
	writes.Wrap(theDoor.wrap)
	return []manager.Option{manager.WithWriteConfig(writes), manager.WithPlugins(players()...)}
}

// stopManager stops it in the middle of whatever it does: its generations are
// not waited for.
func stopManager() {
	GinkgoHelper()
	Expect(berth.Stop()).To(Succeed())
	served = nil
}
