// Command plot draws the results of make bench as SVG, and writes their tables into a page:
//
//	go run . --page ../../docs/performance.md --svg ../../docs/performance ../../docs/performance/runs/*.json
//
// The tables of a run are in a file with the same name as its JSON and the extension .txt. With
// --curves it draws one picture of values over time instead, as make night-report does:
//
//	go run . --curves ../../bin/night/soak.json --svg ../../docs/reliability/soak.svg
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	page := flag.String("page", "docs/performance.md", "the page that the tables go into")
	svg := flag.String("svg", "docs/performance", "the folder that the curves go into; with --curves, the picture")
	overTime := flag.String("curves", "", "a file of values over time, to draw instead")
	flag.Parse()
	draw := func() error { return drawAll(flag.Args(), *page, *svg) }
	if *overTime != "" {
		draw = func() error { return drawCurves(*overTime, *svg) }
	}
	if err := draw(); err != nil {
		fmt.Fprintln(os.Stderr, "plot: failed:", err)
		os.Exit(1)
	}
	fmt.Println("plot: ok")
}

func drawAll(runs []string, page, svg string) error {
	if len(runs) == 0 {
		return errors.New("no run given: the arguments must be JSON files of make bench")
	}
	var r report
	var tables [][]byte
	for _, run := range runs {
		content, err := os.ReadFile(run)
		if err != nil {
			return err
		}
		if err := r.add(content); err != nil {
			return fmt.Errorf("%s: %w", run, err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(run, ".json") + ".txt")
		if err != nil {
			return err
		}
		tables = append(tables, text)
	}
	if err := os.MkdirAll(svg, 0o755); err != nil {
		return err
	}
	for name, curves := range map[string]chart{"nodes.svg": r.podsPerSecondByNodes(), "latency.svg": r.latencyByLoad()} {
		if err := curves.save(filepath.Join(svg, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return insertTables(page, tables)
}

// beginMark and endMark enclose the tables in the page.
const beginMark, endMark = "<!-- run: begin -->", "<!-- run: end -->"

// imageLinks are the links to the curves in the page.
const imageLinks = `![pods a second by nodes](performance/nodes.svg)

![latency by load](performance/latency.svg)
`

// insertTables replaces the text between the marks.
func insertTables(page string, tables [][]byte) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(old, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !found || !ended {
		return fmt.Errorf("%s: must contain the lines %s and %s", page, beginMark, endMark)
	}
	var next bytes.Buffer
	fmt.Fprintf(&next, "%s%s\n", before, beginMark)
	for _, table := range tables {
		fmt.Fprintf(&next, "```\n%s\n```\n\n", bytes.TrimSpace(table))
	}
	fmt.Fprintf(&next, "%s\n%s%s", imageLinks, endMark, after)
	return os.WriteFile(page, next.Bytes(), 0o644)
}
