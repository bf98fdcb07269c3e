package placement

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/readme"
)

// README.md is a promise: the scenarios that it names are there, and it names
// each table of them.
var _ = ReportAfterSuite("README.md", func(report Report) {
	text, err := os.ReadFile("README.md")
	Expect(err).NotTo(HaveOccurred())
	Expect(readme.UnknownNames(string(text), report)).To(BeEmpty(), "names without a scenario")
	Expect(readme.UnnamedContainers(string(text), report)).To(BeEmpty(), "tables without a name")
})
