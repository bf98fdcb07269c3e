package swap

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/swapmatrix"
)

const (
	// everyCell, where it is set, has all cells played instead of each third.
	everyCell = "BERTH_SWAP_EVERY"
	// atOnce is how many are played at a time: most of a cell is waiting.
	atOnce = 12
)

var (
	places  = slices.Sorted(maps.Keys(swapmatrix.Places))
	changes = slices.Sorted(maps.Keys(swapmatrix.Changes))
)

// played says whether the cell of the nth place and the mth change is: each
// place meets each third change, and its neighbour begins with the next one.
func played(n, m int) bool { return (n+m)%3 == 0 }

// chosen are the cells that are played, in order.
func chosen() (all []*cell) {
	for n, where := range places {
		for m, what := range changes {
			if played(n, m) || os.Getenv(everyCell) != "" {
				all = append(all, newCell(fmt.Sprintf("cell-%d-%d", n, m), where, what))
			}
		}
	}
	return all
}

var theCells = chosen()

func (c *cell) sentence() string { return "that is " + c.where + ", when " + c.what }

var _ = Describe("A pod under a stream of others", func() {
	for _, c := range theCells {
		It(c.sentence()+", is bound once, by whom it should", SpecTimeout(10*time.Minute), func(ctx SpecContext) {
			playAll()
			c.await(ctx)
			for _, fault := range c.faults {
				GinkgoWriter.Println(fault)
			}
			Expect(c.faults).To(BeEmpty(), c.name)
		})
	}

	It("leaves nothing behind, whatever came; and the swaps fell among the binds", SpecTimeout(10*time.Minute), func(ctx SpecContext) {
		playAll()
		mixed := 0
		for _, c := range theCells {
			if !c.inFocus() {
				continue
			}
			c.await(ctx)
			if len(c.deciders) > 1 {
				mixed++
			}
		}
		wantRest()
		Expect(mixed).To(BeNumerically(">=", len(theCells)/4), "cells whose stream was decided about by more than one generation")
	})
})

// await waits until the cell was played: as long as that takes, since it has
// deadlines of its own.
func (c *cell) await(ctx context.Context) {
	GinkgoHelper()
	select {
	case <-c.played:
	case <-ctx.Done():
		Fail(c.name + " comes to no end")
	}
}

// playAll plays the cells, many at a time: each has a profile and a namespace
// of its own. The first spec waits for the rest no longer than for itself.
var playAll = sync.OnceFunc(func() {
	turn := make(chan struct{}, atOnce)
	go func() {
		for _, c := range theCells {
			if !c.inFocus() {
				continue
			}
			turn <- struct{}{}
			go func() {
				defer func() { <-turn }()
				c.play()
			}()
		}
	}()
})

// inFocus says whether somebody will ask how the cell ended.
func (c *cell) inFocus() bool {
	suite, _ := GinkgoConfiguration()
	return len(suite.FocusStrings) == 0 || slices.ContainsFunc(suite.FocusStrings, func(pattern string) bool {
		return regexp.MustCompile(pattern).MatchString("swap A pod under a stream of others " + c.sentence())
	})
}

// table is README.md's table of the cells.
func table() string {
	var text strings.Builder
	text.WriteString("| |")
	for n := range places {
		fmt.Fprintf(&text, " %d |", n+1)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(places)) + "\n")
	for m, what := range changes {
		fmt.Fprintf(&text, "| %s |", what)
		for n := range places {
			mark := " "
			if played(n, m) {
				mark = "●"
			}
			fmt.Fprintf(&text, " %s |", mark)
		}
		text.WriteString("\n")
	}
	return text.String()
}

var _ = Describe("README.md", func() {
	It("has the table of the cells", func() {
		text, err := os.ReadFile("README.md")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Contains(string(text), table())).To(BeTrue(), "the table is:\n"+table())
		for n, place := range places {
			Expect(string(text)).To(ContainSubstring("%d. %s\n", n+1, place))
		}
	})
})
