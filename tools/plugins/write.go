package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	beginMark = "<!-- from the code: begin -->\n"
	endMark   = "<!-- from the code: end -->\n"
)

// generatePages returns the pages with their generated parts, by path. The error names a
// plugin without a page, or a page without the marks.
func generatePages(ctx context.Context, root string) (map[string]string, error) {
	all, err := readPlugins(ctx, root)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, p := range all {
		if err := replaceGenerated(pages, filepath.Join(root, folder, p.name+".md"), p.table()); err != nil {
			return nil, err
		}
	}
	return pages, replaceGenerated(pages, filepath.Join(root, folder, "README.md"), indexTable(all))
}

// replaceGenerated replaces the text between the marks of a page.
func replaceGenerated(pages map[string]string, path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("each built-in plugin has a page: %w", err)
	}
	before, rest, opened := strings.Cut(string(page), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !opened || !closed {
		return fmt.Errorf("%s: no lines %q and %q for the generated part", path, beginMark, endMark)
	}
	pages[path] = before + beginMark + text + endMark + after
	return nil
}

// table returns the generated part of a page.
func (p plugin) table() string {
	var text strings.Builder
	row := func(what, is string) { fmt.Fprintf(&text, "| %s | %s |\n", what, is) }
	row("Extension points", p.pointNames())
	row("---", "---")
	row("In the default profile", p.defaultText())
	if len(p.fields) == 0 {
		row("Arguments", "none")
	} else {
		row("Arguments", codeList(p.fields))
	}
	if len(p.reasons) > 0 {
		row("Reasons to reject a node", codeList(p.reasons))
	}
	if len(p.requeueEvents) > 0 {
		row("Events that requeue its pods", codeList(p.requeueEvents))
	}
	if len(p.fields) > 0 {
		text.WriteString("\nDefault arguments:\n\n")
		fmt.Fprintf(&text, "```yaml args %s\n%s```\n", p.name, p.defaults)
	}
	return text.String()
}

func (p plugin) pointNames() string {
	var names []string
	for _, point := range p.points {
		names = append(names, strings.ToUpper(string(point[:1]))+string(point[1:]))
	}
	return strings.Join(names, ", ")
}

func (p plugin) defaultText() string {
	switch {
	case p.optional:
		return "no: a profile must enable it"
	case p.weight > 0:
		return fmt.Sprintf("yes, with weight %d", p.weight)
	}
	return "yes"
}

func codeList(all []string) string {
	var texts []string
	for _, text := range all {
		texts = append(texts, "`"+text+"`")
	}
	return strings.Join(texts, ", ")
}

// indexTable returns the table of all plugins, sorted by name.
func indexTable(all []plugin) string {
	var text strings.Builder
	text.WriteString("| plugin | filters | scores | arguments | default |\n|---|---|---|---|---|\n")
	for _, p := range all {
		has := func(yes bool) string {
			if yes {
				return "yes"
			}
			return ""
		}
		registration := framework.Registration{Points: p.points}
		fmt.Fprintf(&text, "| [%s](%s.md) | %s | %s | %s | %s |\n", p.name, p.name,
			has(registration.Implements(framework.Filter) || registration.Implements(framework.PreEnqueue)),
			has(registration.Implements(framework.Score)), has(len(p.fields) > 0), strings.TrimSuffix(p.defaultText(), ": a profile must enable it"))
	}
	return text.String()
}
