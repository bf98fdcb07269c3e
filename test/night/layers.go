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
	// with the same unit share the goal. independent says that the units are independent runs, which
	// differ by chance, so that their number bounds how often one fails.
	unit        string
	goal        uint64
	independent bool
	// share is the share of the night's time: about so many minutes of a night of six hours. turn is
	// how long the layer runs at a time, at most, least the time below which a turn is not begun, and
	// worth how long a turn should be at least, where the part has so much left.
	share              float64
	turn, least, worth time.Duration
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
// folder of the guided histories' inputs.
const resultFile, corpusFolder = "{result}", "{corpus}"

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

// stepsOf is a layer whose steps do a fixed amount of work, and take about its field least.
func stepsOf(l layer, next func(at position) step) layer {
	l.step = func(at position, left time.Duration) (step, bool) { return next(at), left >= l.least }
	return l
}

const (
	// mutationsAtATime is how many mutations a step plants: those of neighbouring rows are found by
	// the same packages, which are compiled anew in each step.
	mutationsAtATime = 8
	// fuzzTargetsAtATime is how many fuzz targets a step runs, each for fuzzTime: compiling one takes
	// about as long.
	fuzzTargetsAtATime = 4
	fuzzTime           = 40 * time.Second
)

// crashScenarios are the scenarios of test/crashes, of which a step runs the cells of one: each run
// of the suite begins with a run without a crash of each scenario that it has.
var crashScenarios = []string{
	"pods are bound", "a Binding is given up", "a pod is refused, and bound later", "a pod is refused repeatedly",
	"a pod preempts two others", "pods with volumes are bound", "a pod gets devices",
	"a Binding is refused, and the devices of its pod are returned",
	"a claim is reserved for its pod by an earlier attempt", "a claim is deallocated, and allocated on another node",
	"a group is bound", "a group preempts", "a profile starts", "a swap is accepted", "a spec is refused",
	"a profile is rolled back", "more revisions than are kept", "a profile is deleted, and created again",
	"a profile is paused, and active again", "the first profile is created", "a leader takes over", "a leader ends by itself",
	"the first leader", "a build fails", "the steps of a pod", "the steps of a swap", "the steps of a preemption",
}

// faultFiles are the files of test/faults with specs, of which a step runs one.
var faultFiles = []string{"apiserver_test.go", "credentials_test.go", "etcd_test.go", "perturbations_test.go", "planted_test.go", "process_test.go", "timetravel_test.go", "webhook_test.go"}

func nextFuzzTargets(at position) step {
	return step{
		from: at.next, next: at.next + fuzzTargetsAtATime,
		limit: 2 * stepLimit, // where nothing is cached, all packages are compiled anew with their counters
		args:  []string{"--from=" + text(at.next), fmt.Sprint("--count=", fuzzTargetsAtATime), "--time=" + fuzzTime.String(), "--json=" + resultFile},
	}
}

func nextCrashes(at position) step {
	const limit = time.Hour
	// A cell's text begins with its scenario and a colon.
	cells := crashScenarios[at.next%uint64(len(crashScenarios))] + ":"
	return step{
		dir: "test/crashes", from: at.next, next: at.next + 1, limit: limit,
		args: append(testArgs("TestCrashes", limit), "-report", resultFile, "-cells", cells),
	}
}

func nextFaults(at position) step {
	const limit = time.Hour
	file := faultFiles[at.next%uint64(len(faultFiles))]
	return step{
		dir: "test/faults", from: at.next, next: at.next + 1, limit: limit,
		args: append(testArgs("TestFaults", limit), "-ginkgo.no-color", "-all", "-ginkgo.focus-file", file),
	}
}

// nextMutations returns the next mutations of the table, which begins anew after its end.
func nextMutations(at position) step {
	return step{
		from: at.next, next: at.next + mutationsAtATime, count: mutationsAtATime, limit: 40 * time.Minute,
		args: []string{"--from", text(at.next), "--count", strconv.Itoa(mutationsAtATime)},
	}
}

// table has all layers. A new kind of histories is one more row.
var table = []layer{
	seeds("simulation", "TestEveryHistoryKeepsTheInvariants", "-seeds", 60, 300),
	seeds("simulation of replicas", "TestEveryHistoryOfReplicasKeepsTheInvariants", "-replicaseeds", 20, 200),
	seeds("simulation of volumes", "TestEveryHistoryOfVolumesKeepsTheInvariants", "-volumeseeds", 10, 200),
	seeds("simulation of devices", "TestEveryHistoryOfDevicesKeepsTheInvariants", "-deviceseeds", 12, 200),
	seeds("simulation of explanations", "TestEveryHistoryOfExplanationsKeepsTheInvariants", "-explanationseeds", 8, 200),
	seeds("simulation of controllers", "TestEveryHistoryOfControllersKeepsTheInvariants", "-controllerseeds", 12, 100),
	seeds("simulation of gangs", "TestEveryHistoryOfGangsKeepsTheInvariants", "-gangseeds", 15, 200),
	seeds("simulation of gangs and replicas", "TestEveryHistoryOfGangsAndReplicasKeepsTheInvariants", "-gangreplicaseeds", 12, 200),
	seeds("simulation of many gangs", "TestEveryHistoryOfManyGangsKeepsTheInvariants", "-manygangseeds", 5, 1, "-manygangs", "1000"),
	timed(layer{
		name: "guided simulation", unit: "histories", share: 20, turn: 10 * time.Minute, least: 30 * time.Second,
		program: program{pkg: "test/simulation", test: "TestGuidedHistories"}, read: readGuided,
		// Its own seeds are far from those of the other layers.
		first: 1_000_000_000, stride: 1_000_000,
	}, 10*time.Second, func(at position, left time.Duration) []string {
		return append(testArgs("TestGuidedHistories", left+stepLimit), "-guided", left.Round(time.Second).String(), "-first", text(at.next), "-corpus", corpusFolder)
	}),
	stepsOf(layer{
		name: "fuzzing", unit: "executions", share: 30, turn: 20 * time.Minute, least: 5 * time.Minute,
		needs: "test/fuzzing", program: program{pkg: "test/fuzzing"}, read: readFuzzing,
	}, nextFuzzTargets),
	decisions("oracle", "TestGeneratedDecisions", "-decisions", 10, 100, 20000),
	decisions("oracle of preemption", "TestGeneratedPreemptions", "-preemptions", 5, 100, 10000),
	decisions("oracle of devices", "TestGeneratedDecisionsWithDevices", "-device-decisions", 5, 100, 5000),
	timed(layer{
		// After the warm-up of eight minutes a slope needs fifteen.
		name: "soak", unit: "pods", goal: 1_000_000, share: 75, turn: 40 * time.Minute, least: 4 * time.Minute, worth: 26 * time.Minute,
		program: program{pkg: "test/handover/soak"}, read: readSoak, stride: 1,
	}, 2*time.Minute, func(_ position, left time.Duration) []string {
		// One change in ten is invalid: 10,000 run under a million pods.
		return []string{"--churn=" + left.Round(time.Second).String(), "--swap-every=80", "--json=" + resultFile}
	}),
	timed(layer{
		name: "handovers", unit: "handovers", independent: true, share: 15, turn: 6 * time.Minute, least: 4 * time.Minute,
		program: program{pkg: "test/handover/soak"}, read: readHandovers, first: 1, stride: 1,
	}, time.Minute, func(at position, left time.Duration) []string {
		// One takes twenty seconds to half a minute with this Lease.
		n := max(6, int(left/(30*time.Second)))
		return []string{"--lease=6s", fmt.Sprintf("--handovers=%d", n), "--seed=" + text(at.next)}
	}),
	stepsOf(layer{
		name: "crashes", unit: "crash cells", share: 25, turn: 25 * time.Minute, least: 4 * time.Minute,
		needs: "test/crashes", program: program{pkg: "test/crashes", test: "TestCrashes"}, read: readCrashes,
	}, nextCrashes),
	stepsOf(layer{
		name: "faults", unit: "fault specs", share: 45, turn: 40 * time.Minute, least: 12 * time.Minute,
		needs: "test/faults", program: program{pkg: "test/faults", test: "TestFaults"}, read: readSpecs,
	}, nextFaults),
	stepsOf(layer{
		name: "mutations", unit: "mutations", share: 20, turn: 25 * time.Minute, least: 10 * time.Minute,
		program: program{pkg: "test/simulation/mutations"}, read: readMutations,
	}, nextMutations),
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
