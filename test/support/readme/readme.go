// Package readme compares the README.md of a suite with the specs of the suite.
package readme

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// quoted is text in backticks.
var quoted = regexp.MustCompile("`([^`]+)`")

// isName reports whether a quoted text may be the name of a spec: text with a slash is a
// file or a package, text that begins with "-" a flag.
func isName(text string) bool { return !strings.Contains(text, "/") && !strings.HasPrefix(text, "-") }

// UnknownNames returns the names in a text that no spec of the report has, whether it ran or
// not. A name is a part of the text of a spec; "…" in it stands for any other part.
func UnknownNames(text string, report types.Report) []string {
	names, _ := specNames(report)
	var unknown []string
	for _, found := range quoted.FindAllStringSubmatch(text, -1) {
		if !isName(found[1]) {
			continue
		}
		for _, part := range strings.Split(found[1], "…") {
			part = strings.Trim(part, " ,")
			if !slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, part) }) {
				unknown = append(unknown, part)
			}
		}
	}
	return unknown
}

// UnnamedContainers returns the outermost containers of the report, each once, that a text
// does not name.
func UnnamedContainers(text string, report types.Report) []string {
	_, containers := specNames(report)
	var unnamed []string
	for _, container := range containers {
		if !strings.Contains(text, "`"+container) && !slices.Contains(unnamed, container) {
			unnamed = append(unnamed, container)
		}
	}
	return unnamed
}

// Section returns the section under a heading of a text, up to the next heading, and the
// text without it.
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

func specNames(report types.Report) (names, containers []string) {
	for _, spec := range report.SpecReports.WithLeafNodeType(types.NodeTypeIt) {
		names = append(names, spec.FullText())
		containers = append(containers, spec.ContainerHierarchyTexts[0])
	}
	return names, containers
}
