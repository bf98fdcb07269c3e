// Package pages reads the documentation, for tests that hold it to what it says:
// links lead somewhere, manifests are taken, commands run.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is one file of the documentation.
type Page struct {
	// Path is below the root of the module, with slashes.
	Path   string
	Blocks []Block
	Links  []Link
	// Anchors are the fragments by which a link may name a part of it.
	Anchors []string
}

// Block is what stands between two fences.
type Block struct {
	// Language and Info are what follows the opening fence: its first word, and
	// the rest.
	Language, Info string
	// Line is where the block begins.
	Line int
	Text string
}

// Link is one to another page, or to a part of one.
type Link struct {
	Line   int
	Target string
}

// top are the pages beside docs.
var rootPages = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// All reads every page below root, in the order of their paths.
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
	// fence opens or closes a block; it may be indented in a list.
	fence = regexp.MustCompile("^ {0,3}```([^` ]*) *(.*)$")
	// links are [text](target); the target of an image counts, too.
	links = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// code is what stands between backticks, where nothing is a link.
	code = regexp.MustCompile("`[^`]*`")
	// linked is a link in a heading, which the anchor has without its target.
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *$`)
)

// read takes a page apart.
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

// dropped is what an anchor has not of its heading.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)

// anchor is what a heading is called, where the pages are read beside the code and
// on the site alike.
func anchor(title string) string {
	title = linked.ReplaceAllString(title, "$1")
	return strings.ReplaceAll(strings.TrimSpace(notInAnchor.ReplaceAllString(strings.ToLower(title), "")), " ", "-")
}

// unlike is name, or what it is called when an earlier heading has it.
func uniqueAnchor(name string, taken []string) string {
	if slices.Contains(taken, name) {
		return name + "-1"
	}
	return name
}
