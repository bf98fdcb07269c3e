// Package docs reads the documentation, for tests that check its links, manifests and
// commands.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is a file of the documentation.
type Page struct {
	// Path is relative to the root of the module, with slashes.
	Path   string
	Blocks []Block
	Links  []Link
	// Anchors are the fragments by which a link may refer to a part of the page.
	Anchors []string
}

// Block is a fenced block.
type Block struct {
	// Language and Info are the first word after the opening fence, and the rest of its line.
	Language, Info string
	// Line is the line of the opening fence.
	Line int
	Text string
}

// Link is a link to a page, or to a part of it.
type Link struct {
	Line   int
	Target string
}

// rootPages are the pages outside of docs.
var rootPages = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// All reads every page below root, sorted by path.
func All(root string) ([]Page, error) {
	files := slices.Clone(rootPages)
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		below, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(below))
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []Page
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		all = append(all, parsePage(file, string(text)))
	}
	return all, nil
}

var (
	// fence begins or ends a block; it may be indented in a list.
	fence = regexp.MustCompile("^ {0,3}```([^` ]*) *(.*)$")
	// links are [text](target); images count, too.
	links = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// code is text between backticks, which contains no links.
	code = regexp.MustCompile("`[^`]*`")
	// linked is a link in a heading; the anchor does not have its target.
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *$`)
)

// parsePage parses a page.
func parsePage(path, text string) Page {
	page := Page{Path: path}
	var open *Block
	number := 0
	for line := range strings.Lines(text) {
		number++
		plain := strings.TrimRight(line, "\r\n")
		mark := fence.FindStringSubmatch(plain)
		switch {
		case open != nil && mark != nil && mark[1] == "" && mark[2] == "":
			page.Blocks, open = append(page.Blocks, *open), nil
		case open != nil:
			open.Text += line
		case mark != nil:
			open = &Block{Language: mark[1], Info: mark[2], Line: number}
		default:
			if title := heading.FindStringSubmatch(plain); title != nil {
				page.Anchors = append(page.Anchors, uniqueAnchor(anchor(title[1]), page.Anchors))
			}
			for _, link := range links.FindAllStringSubmatch(code.ReplaceAllString(plain, ""), -1) {
				page.Links = append(page.Links, Link{Line: number, Target: link[1]})
			}
		}
	}
	return page
}

// notInAnchor are the characters of a heading that its anchor does not have.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)

// anchor returns the anchor of a heading, which is the same on GitHub and on the site.
func anchor(title string) string {
	title = linked.ReplaceAllString(title, "$1")
	return strings.ReplaceAll(strings.TrimSpace(notInAnchor.ReplaceAllString(strings.ToLower(title), "")), " ", "-")
}

// uniqueAnchor returns name, or name-1 if an earlier heading has it.
func uniqueAnchor(name string, taken []string) string {
	if slices.Contains(taken, name) {
		return name + "-1"
	}
	return name
}
