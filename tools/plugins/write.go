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
	begin = "<!-- from the code: begin -->\n"
	end   = "<!-- from the code: end -->\n"
)

// fresh returns the pages as they should be, by path. The error names a plugin
// without a page, and a page without a place for what the code says.
func fresh(ctx context.Context, root string) (map[string]string, error) {
	all, err := read(ctx, root)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, p := range all {
		if err := replace(pages, filepath.Join(root, folder, p.name+".md"), p.facts()); err != nil {
			return nil, err
		}
	}
	return pages, replace(pages, filepath.Join(root, folder, "README.md"), index(all))
}

// replace puts text between the marks of a page.
func replace(pages map[string]string, path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("each built-in plugin has a page: %w", err)
	}
	before, rest, opened := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return fmt.Errorf("%s: no lines %q and %q for what the code says", path, begin, end)
	}
	pages[path] = before + begin + text + end + after
	return nil
}

// facts is what the code says of a plugin.
func (p plugin) facts() string {
	var text strings.Builder
	row := func(what, is string) { fmt.Fprintf(&text, "| %s | %s |\n", what, is) }
	row("Extension points", p.names())
	row("---", "---")
	row("In the default profile", p.standing())
	if len(p.fields) == 0 {
		row("Arguments", "none")
	} else {
		row("Arguments", quoted(p.fields))
	}
	if len(p.reasons) > 0 {
		row("Why it refuses a node", quoted(p.reasons))
	}
	if len(p.wakes) > 0 {
		row("What wakes its pods", quoted(p.wakes))
	}
	if len(p.fields) > 0 {
		text.WriteString("\nArguments that are left out:\n\n")
		fmt.Fprintf(&text, "```yaml args %s\n%s```\n", p.name, p.defaults)
	}
	return text.String()
}

func (p plugin) names() string {
	var names []string
	for _, point := range p.points {
		names = append(names, strings.ToUpper(string(point[:1]))+string(point[1:]))
	}
	return strings.Join(names, ", ")
}

func (p plugin) standing() string {
	switch {
	case p.standby:
		return "no: a profile has to name it"
	case p.weight > 0:
		return fmt.Sprintf("yes, with weight %d", p.weight)
	}
	return "yes"
}

func quoted(all []string) string {
	var texts []string
	for _, text := range all {
		texts = append(texts, "`"+text+"`")
	}
	return strings.Join(texts, ", ")
}

// index is the list of all plugins, in the order of their names.
func index(all []plugin) string {
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
			has(registration.Implements(framework.Score)), has(len(p.fields) > 0), strings.TrimSuffix(p.standing(), ": a profile has to name it"))
	}
	return text.String()
}
