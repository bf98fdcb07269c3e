package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func allPages(t *testing.T) []Page {
	t.Helper()
	pages, err := All(root)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Links to other sites are not checked: tests do not access the network.
func TestEveryLinkHasATarget(t *testing.T) {
	pages := allPages(t)
	anchors := map[string][]string{} // path → anchors
	for _, p := range pages {
		anchors[p.Path] = p.Anchors
	}
	for _, p := range pages {
		for _, link := range p.Links {
			if message := checkLink(p.Path, link.Target, anchors); message != "" {
				t.Errorf("%s:%d: %s: %s", p.Path, link.Line, link.Target, message)
			}
		}
	}
}

// checkLink returns why a link of a page is broken; empty if it is not.
func checkLink(from, target string, anchors map[string][]string) string {
	parsed, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if parsed.Scheme != "" {
		return ""
	}
	to := from
	if parsed.Path != "" {
		to = path.Join(path.Dir(from), parsed.Path)
	}
	found, err := os.Stat(filepath.Join(root, filepath.FromSlash(to)))
	if err != nil || strings.HasPrefix(to, "..") {
		return "the file does not exist"
	}
	// The site has pages and no folders. It links to files outside of docs in the repository,
	// which has both.
	if found.IsDir() && strings.HasPrefix(to, "docs") {
		return "is a folder: link its README.md"
	}
	if parsed.Fragment != "" && !slices.Contains(anchors[to], parsed.Fragment) {
		return "the page has no such heading; it has " + strings.Join(anchors[to], ", ")
	}
	return ""
}

func TestABrokenLinkIsFound(t *testing.T) {
	anchors := map[string][]string{"docs/metrics.md": {"there"}, "docs/health.md": {"probes"}}
	for name, c := range map[string]struct{ target, want string }{
		"an existing page":                 {"health.md", ""},
		"an existing heading":              {"health.md#probes", ""},
		"a heading of the page itself":     {"#there", ""},
		"a file outside of docs":           {"../config/admission", ""},
		"another site":                     {"https://example.com/nothing", ""},
		"a page that does not exist":       {"nothing.md", "the file does not exist"},
		"a heading that does not exist":    {"health.md#nothing", "the page has no such heading; it has probes"},
		"a folder without a page":          {"runbooks", "is a folder: link its README.md"},
		"a file outside of the repository": {"../../nothing.md", "the file does not exist"},
	} {
		if got := checkLink("docs/metrics.md", c.target, anchors); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestParsePage(t *testing.T) {
	page := parsePage("a.md", "# A title: with `code`\n\nA [link](b.md#c), and `[none](there)`.\n\n```yaml args Fit\na: [b](c)\n```\n\n## A title: with code\n")
	if len(page.Blocks) != 1 || page.Blocks[0] != (Block{Language: "yaml", Info: "args Fit", Line: 5, Text: "a: [b](c)\n"}) {
		t.Errorf("blocks %v", page.Blocks)
	}
	if len(page.Links) != 1 || page.Links[0] != (Link{Line: 3, Target: "b.md#c"}) {
		t.Errorf("links %v", page.Links)
	}
	if !slices.Equal(page.Anchors, []string{"a-title-with-code", "a-title-with-code-1"}) {
		t.Errorf("anchors %v", page.Anchors)
	}
}

// Each page is a page of the site, which takes the title from it and treats text that looks
// like a tag as a tag.
func TestEveryPageHasATitleAndNoTags(t *testing.T) {
	tag := regexp.MustCompile(`<[a-z][a-z-]*[ >]`)
	for _, p := range allPages(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.Path)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s: does not begin with its title, \"# …\"", p.Path)
		}
		if !strings.HasPrefix(p.Path, "docs/") {
			continue
		}
		inBlock := false
		for line := range strings.Lines(string(text)) {
			if fence.MatchString(strings.TrimRight(line, "\n")) {
				inBlock = !inBlock
			}
			if found := tag.FindString(code.ReplaceAllString(line, "")); found != "" && !inBlock && !strings.HasPrefix(found, "<br") {
				t.Errorf("%s: %q is not code: put it between backticks", p.Path, found)
			}
		}
	}
}
