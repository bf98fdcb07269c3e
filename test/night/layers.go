package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/growth"
)

// layer is one way to look for faults.
type layer struct {
	name string
	// unit is what it counts, and goal how many of it there should be in all; 0: none. Layers
	// with the same unit share the goal. independent says that the units are independent runs, so
	// that their number bounds how often one fails.
	unit        string
	goal        uint64
	independent bool
	// share is the share of the night's time, relative to those of the others. turn is how long
	// the layer runs at a time, at most, and least the time below which a turn is not begun.
	share       float64
	turn, least time.Duration
	// needs is a file or folder of the sources; a layer without it is skipped.
	needs   string
	program program
	// first is where the first step begins, and stride how far the next one of a timed layer is.
	first, stride uint64
	// step returns the next step; false where none fits into the time that is left.
	step func(at position, left time.Duration) (step, bool)
	// read reads what a step did.
	read func(s step, o outcome) reading
}

// missing returns why a layer cannot run; "" if it can.
func (l layer) missing(root string) string {
	if _, err := os.Stat(filepath.Join(root, l.needs)); l.needs != "" && err != nil {
		return "the sources have no " + l.needs
	}
	return ""
}

// program is what a layer runs.
type program struct {
	// pkg is the folder of the package, relative to the root of the module; dir is that of a nested
	// module, to which pkg is relative then.
	dir, pkg string
	// test is a test of the package, whose binary is the program; "": the package is a command.
	test string
}

// workFolder is the folder in which the program runs: that of the package for a test, as `go test`
// has it, and that of the module for a command.
func (p program) workFolder() string {
	if p.test == "" {
		return p.dir
	}
	return filepath.Join(p.dir, p.pkg)
}

// step is one command.
type step struct {
	path string
	// args may contain the placeholders of folders and files below.
	args []string
	// dir is the folder in which it runs, relative to the root of the module.
	dir string
	// from and next are where it begins and where the next step begins; count is how much of the
	// unit it does.
	from, next, count uint64
	// limit is the time after which a command that has not ended is a finding.
	limit time.Duration
}

// Placeholders in the arguments of a step: the file to which the command writes its result, and the
// folder of all parts.
const resultFile, nightFolder = "{result}", "{night}"

// String returns the command as it can be read.
func (s step) String() string { return filepath.Base(s.path) + " " + strings.Join(s.args, " ") }

// reading is what a step did.
type reading struct {
	counts   map[string]uint64
	findings []finding
	samples  []growth.Sample
}

// stepTime is how long a step of seeds or decisions should take: so much is lost when a part is
// killed.
const stepTime = 30 * time.Second

// countFor returns how much fits into a step: as much as took stepTime so far, at most what is left,
// and at first as many as fewest. false: too little time is left for fewest.
func countFor(at position, left time.Duration, fewest uint64) (uint64, bool) {
	if left < time.Second {
		return 0, false
	}
	if at.rate == 0 {
		return fewest, true
	}
	n := max(1, uint64(at.rate*min(stepTime, left).Seconds()))
	// Where little time is left, a step of less than a third of the fewest is not worth its start.
	return n, left >= stepTime || n*3 >= fewest
}

// stepLimit is the longest that a step of seeds or decisions takes, shrinking of failures included.
const stepLimit = 20 * time.Minute

// seeds is a layer of simulated histories: it plays test of test/simulation, whose number of seeds
// is the flag.
func seeds(name, test, flag string, share float64, fewest uint64, more ...string) layer {
	return layer{
		name: name, unit: "seeds", goal: 10_000_000, independent: true, share: share, turn: 10 * time.Minute, least: 10 * time.Second,
		program: program{pkg: "test/simulation", test: test}, first: 1,
		step: func(at position, left time.Duration) (step, bool) {
			n, ok := countFor(at, left, fewest)
			return step{
				dir: "test/simulation", from: at.next, next: at.next + n, count: n, limit: stepLimit,
				args: append(testArgs(test, stepLimit), append([]string{"-first", text(at.next), flag, text(n)}, more...)...),
			}, ok
		},
		read: func(s step, o outcome) reading {
			return readTest(s, o, "seeds", func(seed string) string {
				return fmt.Sprintf("go test ./test/simulation -run '^%s$' -args -first %s %s 1 %s", test, seed, flag, strings.Join(more, " "))
			})
		},
	}
}

// decisions is a layer of the oracle: it runs test, whose number of attempts is the flag; each
// history has perHistory of them.
func decisions(name, test, flag string, share float64, perHistory, fewest uint64) layer {
	const dir, unit = "test/exactness/oracle", "decisions"
	return layer{
		name: name, unit: unit, independent: true, share: share, turn: 10 * time.Minute, least: 20 * time.Second,
		program: program{dir: dir, pkg: ".", test: test}, first: 1,
		step: func(at position, left time.Duration) (step, bool) {
			n, ok := countFor(at, left, fewest)
			// A test that has too few decisions fails, since they cover too little.
			n = max(n, fewest) / perHistory * perHistory
			return step{
				dir: dir, from: at.next, next: at.next + n/perHistory, count: n, limit: stepLimit,
				args: append(testArgs(test, stepLimit), "-seed", text(at.next), flag, text(n)),
			}, ok
		},
		read: func(s step, o outcome) reading {
			return readTest(s, o, unit, func(seed string) string {
				return fmt.Sprintf("cd %s && go test . -run '^%s$' -args -seed %s %s %d", dir, test, seed, flag, perHistory)
			})
		},
	}
}

// timed is a layer of a command with a flag for how long to run. It needs more for its start and
// its end. args are the command's flags.
func timed(l layer, more time.Duration, args func(at position, left time.Duration) []string) layer {
	l.step = func(at position, left time.Duration) (step, bool) {
		return step{
			dir: l.program.workFolder(), from: at.next, next: at.next + l.stride, limit: 2*left + 15*time.Minute,
			args: args(at, left-more),
		}, left >= l.least
	}
	return l
}

// mutationsAtATime is how many mutations a step plants: those of neighbouring rows are found by the
// same packages, which are compiled anew in each step.
const mutationsAtATime = 8

const (
	// fuzzTargets is about how many fuzz targets there are.
	fuzzTargets = 30
	// crashParts is the number of parts into which the crash cells are divided: one takes about a
	// quarter of an hour.
	crashParts = 16
)

// table has all layers. A new kind of histories is one more row.
var table = []layer{
	seeds("simulation", "TestEveryHistoryKeepsTheInvariants", "-seeds", 25, 300),
	seeds("simulation of replicas", "TestEveryHistoryOfReplicasKeepsTheInvariants", "-replicaseeds", 5, 200),
	seeds("simulation of volumes", "TestEveryHistoryOfVolumesKeepsTheInvariants", "-volumeseeds", 4, 200),
	seeds("simulation of devices", "TestEveryHistoryOfDevicesKeepsTheInvariants", "-deviceseeds", 4, 200),
	seeds("simulation of explanations", "TestEveryHistoryOfExplanationsKeepsTheInvariants", "-explanationseeds", 3, 200),
	seeds("simulation of gangs", "TestEveryHistoryOfGangsKeepsTheInvariants", "-gangseeds", 6, 200),
	seeds("simulation of many gangs", "TestEveryHistoryOfManyGangsKeepsTheInvariants", "-manygangseeds", 2, 1, "-manygangs", "1000"),
	timed(layer{
		name: "guided simulation", unit: "histories", share: 8, turn: 10 * time.Minute, least: 30 * time.Second,
		program: program{pkg: "test/simulation", test: "TestGuidedHistories"}, read: readGuided,
		// Its own seeds are far from those of the other layers.
		first: 1_000_000_000, stride: 1_000_000,
	}, 10*time.Second, func(at position, left time.Duration) []string {
		return append(testArgs("TestGuidedHistories", left+stepLimit), "-guided", left.Round(time.Second).String(), "-first", text(at.next), "-corpus", nightFolder+"/corpus")
	}),
	timed(layer{
		name: "fuzzing", unit: "executions", share: 8, turn: 20 * time.Minute, least: 10 * time.Minute,
		needs: "test/fuzzing", program: program{pkg: "test/fuzzing"}, read: readFuzzing, stride: 1,
	}, 3*time.Minute, func(_ position, left time.Duration) []string {
		return []string{"--time=" + (left / fuzzTargets).Round(time.Second).String(), "--json=" + resultFile}
	}),
	decisions("oracle", "TestGeneratedDecisions", "-decisions", 4, 100, 20000),
	decisions("oracle of preemption", "TestGeneratedPreemptions", "-preemptions", 2, 100, 10000),
	decisions("oracle of devices", "TestGeneratedDecisionsWithDevices", "-device-decisions", 2, 100, 5000),
	timed(layer{
		name: "soak", unit: "pods", goal: 1_000_000, share: 25, turn: 40 * time.Minute, least: 4 * time.Minute,
		program: program{pkg: "test/handover/soak"}, read: readSoak, stride: 1,
	}, 2*time.Minute, func(_ position, left time.Duration) []string {
		return []string{"--churn=" + left.Round(time.Second).String(), "--swap-every=90", "--json=" + resultFile}
	}),
	timed(layer{
		name: "handovers", unit: "handovers", independent: true, share: 5, turn: 6 * time.Minute, least: 4 * time.Minute,
		program: program{pkg: "test/handover/soak"}, read: readHandovers, first: 1, stride: 1,
	}, time.Minute, func(at position, left time.Duration) []string {
		// One takes twenty seconds to half a minute with this Lease.
		n := max(6, int(left/(30*time.Second)))
		return []string{"--lease=6s", fmt.Sprintf("--handovers=%d", n), "--seed=" + text(at.next)}
	}),
	timed(layer{
		name: "crashes", unit: "crash cells", independent: true, share: 8, turn: 25 * time.Minute, least: 15 * time.Minute,
		needs: "test/crashes", program: program{pkg: "test/crashes", test: "TestCrashes"}, read: readCrashes, stride: 1,
	}, 0, func(at position, _ time.Duration) []string {
		return append(testArgs("TestCrashes", 2*time.Hour), "-cells", "all", "-part", fmt.Sprintf("%d/%d", at.next%crashParts+1, crashParts), "-report", resultFile)
	}),
	timed(layer{
		name: "faults", unit: "fault specs", independent: true, share: 8, turn: 40 * time.Minute, least: 30 * time.Minute,
		needs: "test/faults", program: program{pkg: "test/faults", test: "TestFaults"}, read: readSpecs, first: 1, stride: 1,
	}, 0, func(at position, _ time.Duration) []string {
		return append(testArgs("TestFaults", 2*time.Hour), "-all", "-ginkgo.seed", text(at.next), "-ginkgo.no-color")
	}),
	{
		name: "mutations", unit: "mutations", share: 8, turn: 25 * time.Minute, least: 12 * time.Minute,
		program: program{pkg: "test/simulation/mutations"}, step: nextMutations, read: readMutations,
	},
}

func layerNames(layers []layer) (names []string) {
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

func text(n uint64) string { return strconv.FormatUint(n, 10) }

// testArgs are the flags of a test binary that runs one test. Its own limit is shorter than that of
// the step, so that the output has the stacks of what hangs.
func testArgs(test string, limit time.Duration) []string {
	return []string{"-test.v", "-test.run", "^" + test + "$", "-test.timeout", (limit - time.Minute).String()}
}

// nextMutations returns the next mutations of the table, which begins anew after its end.
func nextMutations(at position, left time.Duration) (step, bool) {
	return step{
		from: at.next, next: at.next + mutationsAtATime, count: mutationsAtATime, limit: 40 * time.Minute,
		args: []string{"--from", text(at.next), "--count", strconv.Itoa(mutationsAtATime)},
	}, at.rate == 0 && left >= 10*time.Minute || at.rate > 0 && left.Seconds()*at.rate >= mutationsAtATime
}
