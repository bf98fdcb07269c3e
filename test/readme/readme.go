// Package readme holds a suite to what its README.md says that it plays.
package readme

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// quoted is what stands in backticks.
var quoted = regexp.MustCompile("`([^`]+)`")

// isName says whether what stands there may be a scenario's name: what has a
// slash in it is a file or a package, what begins with '-' a flag.
func isName(text string) bool { return !strings.Contains(text, "/") && !strings.HasPrefix(text, "-") }

// Strange are the names in a text that no spec of the report has, run or not. A
// name is a part of what a spec is called; "…" in it stands for any other part.
func UnknownNames(text string, report types.Report) []string {
	scenarios, _ := specNames(report)
	var strange []string
	for _, found := range quoted.FindAllStringSubmatch(text, -1) {
		if !isName(found[1]) {
			continue
		}
		for _, part := range strings.Split(found[1], "…") {
			part = strings.Trim(part, " ,")
			if !slices.ContainsFunc(scenarios, func(s string) bool { return strings.Contains(s, part) }) {
				strange = append(strange, part)
			}
		}
	}
	return strange
}

// Unnamed are the outermost containers of the report, each once, of which a text
// names nothing.
func UnnamedContainers(text string, report types.Report) []string {
	_, tables := specNames(report)
	var unnamed []string
	for _, table := range tables {
		if !strings.Contains(text, "`"+table) && !slices.Contains(unnamed, table) {
			unnamed = append(unnamed, table)
		}
	}
	return unnamed
}

// Section is what stands under a heading of a text, up to the next; and the text
// without it.
func Section(text, heading string) (section, rest string) {
	before, after, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		return "", text
	}
	if end := strings.Index(after, "\n## "); end >= 0 {
		return after[:end], before + after[end:]
	}
	return after, before
}

func specNames(report types.Report) (scenarios, tables []string) {
	for _, spec := range report.SpecReports.WithLeafNodeType(types.NodeTypeIt) {
		scenarios = append(scenarios, spec.FullText())
		tables = append(tables, spec.ContainerHierarchyTexts[0])
	}
	return scenarios, tables
}
