package diff

import (
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/compile"
)

// Section is a part of a profile that differs.
type Section struct {
	// Title is an extension point, "arguments of" and a plugin, "extenders", "settings", or
	// "state, activation and exports".
	Title string `json:"title"`
	// Lines are the lines that differ, and some around them.
	Lines []Line `json:"lines"`
}

// Line is a line of a section.
type Line struct {
	// Sign is "-" for a line that is removed, "+" for one that is added, and " " for one that
	// stays.
	Sign string `json:"sign"`
	Text string `json:"text"`
}

// Compare returns the sections in which two compiled profiles differ, and the titles of those
// in which they do not.
func Compare(from, to *compile.Blueprint) (sections []Section, equal []string, err error) {
	before, err := effectOf(from)
	if err != nil {
		return nil, nil, err
	}
	after, err := effectOf(to)
	if err != nil {
		return nil, nil, err
	}
	sections, equal = compareEffects(before, after)
	return sections, equal, nil
}

// compareEffects returns the sections in which two effects differ, and the titles of those in
// which they do not.
func compareEffects(before, after effect) (sections []Section, equal []string) {
	for _, title := range sortedTitles(after, before) {
		lines := show.Diff(before[title], after[title])
		switch {
		case lines != nil:
			sections = append(sections, Section{Title: title, Lines: splitSigns(lines)})
		case len(after[title]) > 0:
			equal = append(equal, title)
		}
	}
	return sections, equal
}

// splitSigns splits the lines of show.Diff, which begin with a sign and a space.
func splitSigns(lines []string) (split []Line) {
	for _, line := range lines {
		split = append(split, Line{Sign: line[:1], Text: line[2:]})
	}
	return split
}
