package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"math"
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

	"github.com/berthdev/berth/scheduler/queue"
)

var (
	seeds    = flag.Uint64("seeds", 2000, "number of seeds")
	first    = flag.Uint64("first", 1, "first seed")
	printLog = flag.Bool("log", false, "print the log of the first seed, and play no other")
	stop     = flag.Bool("stop", false, "end at the first failing seed, without shrinking it: for mutation tests")

	controllerSeeds = flag.Uint64("controllerseeds", 100, "number of seeds of histories of controllers")

	replicaSeeds = flag.Uint64("replicaseeds", 150, "number of seeds of histories of replicas")

	gangSeeds     = flag.Uint64("gangseeds", 100, "number of seeds of histories of -gangs gangs")
	gangCount     = flag.Int("gangs", 20, "gangs in each of these histories")
	manyGangSeeds = flag.Uint64("manygangseeds", 1, "number of seeds of histories of -manygangs gangs")
	manyGangCount = flag.Int("manygangs", 150, "gangs in each of these histories")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Thousands of plugin calls fail, and each failure is logged.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// maxShrunk is the number of failing seeds that are shrunk and printed.
const maxShrunk = 3

// pods are histories of single pods.
var pods = kind{}

// controlled are histories of controllers.
var controlled = kind{replicas: true, controllers: true}

func TestEveryHistoryKeepsTheInvariants(t *testing.T) { pods.test(t, *seeds, requiredEvents()) }

func TestEveryHistoryOfReplicasKeepsTheInvariants(t *testing.T) {
	kind{replicas: true}.test(t, *replicaSeeds, requiredReplicaEvents())
}

func TestEveryHistoryOfControllersKeepsTheInvariants(t *testing.T) {
	controlled.test(t, *controllerSeeds, requiredControllerEvents())
}

// What a leader and its successor do to each other's pods is not tested by histories without pods.
func TestHistoriesOfReplicasBindPods(t *testing.T) {
	const n, want = 20, 15
	counts, _ := kind{replicas: true}.runSeeds(1, n)
	if bound := counts["bind done"] + counts["late bind done"]; bound < n*want {
		t.Errorf("%d pods are bound in %d histories, want %d in each on average", bound, n, want)
	}
}

func TestEveryHistoryOfGangsKeepsTheInvariants(t *testing.T) {
	kind{gangs: *gangCount}.test(t, *gangSeeds, requiredGangEvents())
}

// A history of many gangs has so many pods that nothing happens by chance alone: its seeds need
// not see every event.
func TestEveryHistoryOfManyGangsKeepsTheInvariants(t *testing.T) {
	kind{gangs: *manyGangCount}.test(t, *manyGangSeeds, nil)
}

// test plays n seeds from the flag -first on. A thousand of them must see the required events.
func (k kind) test(t *testing.T, n uint64, required []string) {
	if *printLog {
		sim := k.run(*first, true)
		t.Logf("seed %d: %v\n%s", *first, sim.failure, strings.Join(sim.log, "\n"))
		return
	}
	counts, broken := k.runSeeds(*first, n)
	slices.Sort(broken)
	if *stop && len(broken) > 0 {
		t.Fatalf("seed %d: %v", broken[0], k.run(broken[0], false).failure)
	}
	if len(broken) > 0 {
		t.Logf("seeds that fail: %v; now to shrink them, which may take longer than the seeds", broken) // -v prints it at once
	}
	for i, seed := range broken {
		if i == maxShrunk {
			t.Errorf("and %d more seeds: %v", len(broken)-i, broken[i:])
			break
		}
		t.Errorf("seed %d: %s", seed, k.story(seed))
	}
	if n >= 1000 && len(broken) == 0 {
		checkCoverage(t, counts, n, required)
	}
}

// runSeeds plays seeds in parallel and returns what they counted, and which of them failed.
func (k kind) runSeeds(from, n uint64) (counts map[string]int, broken []uint64) {
	counts = map[string]int{}
	var mu sync.Mutex
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				sim := k.run(from+i, false)
				mu.Lock()
				for what, times := range sim.counts {
					counts[what] += times
				}
				if sim.failure != nil {
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

// checkCoverage fails where a required event did not happen in one of a thousand histories: an
// invariant is not tested by a fault that never happens. Seeds that begin with the first are always
// the same; others may have fewer by chance, within four standard deviations.
func checkCoverage(t *testing.T, counts map[string]int, seeds uint64, required []string) {
	want := float64(seeds) / 1000
	if *first != 1 {
		want -= 4 * math.Sqrt(want)
	}
	for _, what := range required {
		if float64(counts[what]) < want {
			t.Errorf("%d seeds: %d times: %s; want once in a thousand seeds", seeds, counts[what], what)
		}
	}
	var lines []string
	for what, times := range counts {
		lines = append(lines, fmt.Sprintf("%9d  %s", times, what))
	}
	slices.Sort(lines)
	t.Logf("events:\n%s", strings.Join(lines, "\n"))
}

// A seed decides everything, or a failure could not be reproduced.
func TestOneSeedHasOneHistory(t *testing.T) {
	for k, n := range map[kind]uint64{
		pods: 200, {gangs: 20}: 10, {replicas: true}: 20, {volumes: true}: 30, {devices: true}: 30, {explanations: true}: 30, controlled: 20,
		gangsAndReplicas: 5,
	} {
		for seed := uint64(1); seed <= n; seed++ {
			a, b := k.run(seed, false), k.run(seed, false)
			if a.logHash.Sum64() != b.logHash.Sum64() {
				t.Errorf("seed %d of %+v has two histories", seed, k)
			}
		}
	}
}

// seedKinds are the kinds of the histories of which seeds/*.txt have seeds.
var seedKinds = map[string]kind{
	"found.txt": pods, "gangs.txt": {gangs: 20}, "replicas.txt": {replicas: true}, "volumes.txt": {volumes: true},
	"devices.txt": {devices: true}, "explanations.txt": {explanations: true}, "controllers.txt": controlled, "gangreplicas.txt": gangsAndReplicas,
}

// Seeds that once failed are played again. Their histories change with the simulation; what
// they found is kept in the mutation tests.
func TestSeedsThatFailedBefore(t *testing.T) {
	files, err := filepath.Glob("seeds/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		k, known := seedKinds[filepath.Base(file)]
		if !known {
			t.Fatalf("%s: no kind of histories has seeds in a file of that name", file)
		}
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
			if sim := k.run(seed, false); sim.failure != nil {
				t.Errorf("seed %d (which found: %s): %s", seed, found, k.story(seed))
			}
		}
		_ = f.Close()
	}
}

// requiredEvents are what a thousand seeds must have seen: every action, every outcome of a
// request, every queue in which a pod can stay, and the situations for which invariants exist.
func requiredEvents() []string {
	all := []string{
		"a deletion found only by a list", "a list finds another object under the same name",
		"a swap", "a rejection", "a plugin's factory returns an error", "a plugin's factory panics",
		"a pod waits at Permit", "unreserved", "post-bound",
		"late bind done", "late bind refused", "late patch done",
		observerName + " closed", orderName + " closed",
		"a swap meets a pod at Permit", "a swap meets a Binding under way", "a swap meets a refused pod",
		"event FailedScheduling", "event Scheduled", "event Preempted",
		"a victim is deleted", "a victim that was not bound yet goes back to the queue", "a victim is created again",
	}
	all = append(all, requiredHandoverEvents()...)
	for _, point := range timedPoints {
		all = append(all, "a plugin's call times out in "+point)
	}
	for _, k := range actionKinds {
		all = append(all, k.name)
	}
	for _, verb := range []string{"bind", "patch", "get", "delete"} {
		all = append(all, verb+" done", verb+" refused")
		for _, f := range outcomes {
			all = append(all, verb+" "+f.name)
		}
	}
	for _, point := range pluginPoints {
		all = append(all, "a panic in "+point)
		if point != "Unreserve" && point != "PostBind" {
			all = append(all, "an error in "+point)
		}
	}
	for _, place := range []queue.Place{queue.Unschedulable, queue.Gated, queue.Held} {
		all = append(all, fmt.Sprintf("a quiescent pod is %s", place))
	}
	return all
}

// story plays a failing seed with as few kinds of faults and actions as it can, and returns the
// log.
func (k kind) story(seed uint64) string {
	k = k.withFewestFaults(seed)
	_, story := k.shrink(input{Seed: seed})
	if k.replicas {
		return fmt.Sprintf("without: %s; %s", k.without, story)
	}
	return story
}
