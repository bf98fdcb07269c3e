package integration

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/controlplane"
)

// What else of config/ can be applied, as the API server judges it.
var _ = Describe("What config/ holds", func() {
	DescribeTable("is taken by the API server",
		func(ctx SpecContext, how, path string) {
			root, err := controlplane.ModuleRoot()
			Expect(err).NotTo(HaveOccurred())
			said, err := kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
				how+filepath.Join(root, "config", filepath.FromSlash(path)))
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(ContainSubstring("serverside-applied (server dry run)"))
		},
		Entry("with every component", minute, "--kustomize=", "production"),
		Entry("for a static pod", minute, "--kustomize=", "static-pod"),
		Entry("the static pod", minute, "--filename=", "static-pod/berth.yaml"),
		Entry("the policies", minute, "--kustomize=", "admission"),
	)
})
