package placement

import (
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

// quoted is what README.md names; what has no spec's name in it has a slash, or
// is a flag.
var quoted = regexp.MustCompile("`([^`/-][^`/]*)`")

// README.md is a promise: the scenarios that it names are there, and it names
// each table of them.
var _ = ReportAfterSuite("README.md", func(report Report) {
	text, err := os.ReadFile("README.md")
	Expect(err).NotTo(HaveOccurred())
	var scenarios, tables []string
	for _, spec := range report.SpecReports.WithLeafNodeType(types.NodeTypeIt) {
		scenarios = append(scenarios, spec.FullText())
		tables = append(tables, spec.ContainerHierarchyTexts[0])
	}
	var strange []string
	for _, name := range quoted.FindAllStringSubmatch(string(text), -1) {
		for _, part := range strings.Split(name[1], "…") {
			part = strings.Trim(part, " ,")
			if !slices.ContainsFunc(scenarios, func(s string) bool { return strings.Contains(s, part) }) {
				strange = append(strange, part)
			}
		}
	}
	Expect(strange).To(BeEmpty(), "names without a scenario")
	for _, table := range tables {
		Expect(strings.Contains(string(text), "`"+table)).To(BeTrue(), "the table %q is named", table)
	}
})
