package integration

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/readme"
)

// What kube-scheduler's own tests check about extenders is played here, where
// extenders may be on this host, and is listed with what they check about volumes.
var _ = ReportAfterSuite("test/integration/scenarios/volumes/README.md", func(report Report) {
	text, err := os.ReadFile("scenarios/volumes/README.md")
	Expect(err).NotTo(HaveOccurred())
	section, _ := readme.Section(string(text), "Extenders")
	Expect(section).NotTo(BeEmpty())
	Expect(readme.UnknownNames(section, report)).To(BeEmpty(), "names without a spec")
})
