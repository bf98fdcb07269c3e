package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var (
	seeds = flag.Uint64("seeds", 2000, "how many seeds to play")
	first = flag.Uint64("first", 1, "the first seed to play")
	story = flag.Bool("story", false, "print the story of the first seed, and play no other")
	stop  = flag.Bool("stop", false, "stop at a broken seed, and tell no more than what broke: for the mutations")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Plugins fail by the thousand here, and each is logged.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// failures is how many broken seeds are told in full.
const failures = 3

func TestEveryHistoryKeepsItsPromises(t *testing.T) {
	if *story {
		w := run(*first, nil, true)
		t.Logf("seed %d: %v\n%s", *first, w.fault, strings.Join(w.story, "\n"))
		return
	}
	counts, broken := play(*first, *seeds)
	slices.Sort(broken)
	if *stop && len(broken) > 0 {
		t.Fatalf("seed %d: %v", broken[0], run(broken[0], nil, false).fault)
	}
	for i, seed := range broken {
		if i == failures {
			t.Errorf("and %d seeds more: %v", len(broken)-i, broken[i:])
			break
		}
		t.Errorf("seed %d: %s", seed, shrink(seed))
	}
	if *seeds >= 1000 && len(broken) == 0 {
		checkHonesty(t, counts)
	}
}

// play runs seeds side by side, each in a world of its own.
func play(from, n uint64) (counts map[string]int, broken []uint64) {
	counts = map[string]int{}
	var mu sync.Mutex
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				w := run(from+i, nil, false)
				mu.Lock()
				for what, times := range w.counts {
					counts[what] += times
				}
				if w.fault != nil {
					broken = append(broken, from+i)
					if *stop {
						next.Store(n)
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return counts, broken
}

// checkHonesty holds the simulation to its promise to try everything: a fault
// that never happened proves nothing.
func checkHonesty(t *testing.T, counts map[string]int) {
	for _, what := range promised() {
		if uint64(counts[what])*1000 < *seeds {
			t.Errorf("in %d seeds it happened %d times that %s; want one in a thousand", *seeds, counts[what], what)
		}
	}
	var told []string
	for what, times := range counts {
		told = append(told, fmt.Sprintf("%9d  %s", times, what))
	}
	slices.Sort(told)
	t.Logf("what happened:\n%s", strings.Join(told, "\n"))
}

// The test of the test: a seed decides everything.
func TestOneSeedHasOneHistory(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		a, b := run(seed, nil, false), run(seed, nil, false)
		if a.told.Sum64() != b.told.Sum64() {
			t.Errorf("seed %d had two histories", seed)
		}
	}
}

// Seeds that once found a fault are played for ever. What they tell changes
// with the simulation; the bugs themselves are kept as mutations.
func TestKeptSeeds(t *testing.T) {
	files, err := filepath.Glob("seeds/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			number, found, _ := strings.Cut(lines.Text(), " ")
			seed, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				t.Fatalf("%s: %q does not begin with a seed", file, lines.Text())
			}
			if w := run(seed, nil, false); w.fault != nil {
				t.Errorf("seed %d (which once found: %s): %s", seed, found, shrink(seed))
			}
		}
		_ = f.Close()
	}
}
