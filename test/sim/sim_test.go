package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var (
	seeds = flag.Int("seeds", 2000, "how many seeds to play")
	first = flag.Uint64("seed", 1, "the first seed to play")
	story = flag.Bool("story", false, "print the story of the first seed")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	flag.Parse()
	os.Exit(m.Run())
}

func TestSeeds(t *testing.T) {
	begin := time.Now()
	faults := 0
	kinds := map[string]int{}
	steps := 0
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(seed, nil, *story)
		steps += w.steps
		if *story {
			fmt.Println(strings.Join(w.story, "\n"))
		}
		if w.fault != nil {
			faults++
			text := w.fault.Error()
			if i := strings.Index(text, "\n"); i > 0 && faults > 3 {
				text = text[:i]
			}
			if faults < 40 {
				t.Errorf("seed %d: %s", seed, text)
			}
			kinds[text[:min(20, len(text))]]++
		}
	}
	t.Log(faults, "faults", steps, "steps", time.Since(begin), kinds)
}

// The test of the test: a seed decides everything.
func TestOneSeedHasOneHistory(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		a, b := run(seed, nil, false), run(seed, nil, false)
		if a.told.Sum64() != b.told.Sum64() {
			t.Errorf("seed %d had two histories", seed)
		}
	}
}
