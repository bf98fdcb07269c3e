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

// fresh returns the pages as they should be, by path. The error names a plugin
// without a page, and a page without a place for what the code says.
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

// replace puts text between the marks of a page.
func replaceGenerated(pages map[string]string, path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("each built-in plugin has a page: %w", err)
	}
	before, rest, opened := strings.Cut(string(page), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !opened || !closed {
		return fmt.Errorf("%s: no lines %q and %q for what the code says", path, beginMark, endMark)
	}
	pages[path] = before + beginMark + text + endMark + after
	return nil
}

// facts is what the code says of a plugin.
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
		row("Why it refuses a node", codeList(p.reasons))
	}
	if len(p.requeueEvents) > 0 {
		row("What wakes its pods", codeList(p.requeueEvents))
	}
	if len(p.fields) > 0 {
		text.WriteString("\nArguments that are left out:\n\n")
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
		return "no: a profile has to name it"
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

// index is the list of all plugins, in the order of their names.
func indexTable(all []plugin) string {
	var text strings.Builder
	text.WriteString("| plugin | refuses | scores | arguments | default |\n|---|---|---|---|---|\n")
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
			has(registration.Implements(framework.Score)), has(len(p.fields) > 0), strings.TrimSuffix(p.defaultText(), ": a profile has to name it"))
	}
	return text.String()
}
