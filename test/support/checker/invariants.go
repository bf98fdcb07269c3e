// Package checker decides the invariants of Berth on a cluster that runs: from the history of
// etcd, the audit logs of the API servers, and samples of the manager's processes. It shares no
// code with the scheduler but the types of its API; only the last question, whether a pod that
// waits could run, is also asked to the scheduler in a sandbox.
//
//	c, err := checker.Start(ctx, cp, checker.Options{Audit: []audit.Log{log}})
//	… load, faults …
//	report, err := c.End(ctx)
//	Expect(report.Violations).To(BeEmpty())
//
// What decides which invariant, as Invariants has it. E is the history of etcd, A the audit logs,
// S the samples, X the sandbox with the final state.
//
//	I1   E    a pod is bound once, to a node on which it fits: resources, pods, ports, devices,
//	          volumes, labels, taints, required anti-affinity; affinity to pods and spread are
//	          decided by test/simulation
//	I2   E    a pod that fits somewhere is bound within Options.LongestWait; test/simulation has no
//	          flush, so that a missed event shows
//	I3   EX   at the end each pod that waits says why, and none could run
//	I4   E    a bind names node, profile and revision, and that revision ran
//	I5        test/integration/scenarios/swap: which plugins a cycle calls cannot be seen here
//	I6   E    what runs keeps running when a spec is refused
//	I7   E    no leader binds after its successor
//	I8   S    the heap does not grow; in runs of at least 16 samples
//	I9   S    goroutines and descriptors do not grow; scheduler/profile has a thousand rebuilds
//	I10  A    no request is forbidden; that no permission is unused is decided by test/integration
//	I11       scheduler/queue: a slow profile is throttled; test/perf measures it, as a ratio of two runs
//	I12       test/replay/run: the same decision again
//	I13  EA   at the end nothing is written any more, and each status is about the newest spec
//	I14       test/simulation: counts calls of plugins
//	I15  E    a victim has a lower priority than a pod that is nominated for its node; that there
//	          are not more victims than needed is decided by test/simulation
//	I16  E    no text in a namespace names a pod of another one
//	I17  EA   few writes of each status, of bounded size, and few requests for each pod; the budget
//	          of explanations is decided by test/perf/explanations
//	I18  E    no counter, generation or epoch goes back
//	I19       test/simulation: compares the cache with the cluster
//	I20       test/simulation: checks the heap after each step
//	I21  S    no process of the manager ends by itself; a plugin that panics is one of scheduler's
//	          tests
//	Foreign A no object that is not Berth's own concern is written
//	Status  E the status of each profile, and each explanation, is true at the end
//	History E nothing is missing in the history
package checker

// Invariant is the name of an invariant.
type Invariant string

// The invariants of the research on reliability, and three that this package adds.
const (
	I1, I2, I3, I4, I5, I6, I7        Invariant = "I1", "I2", "I3", "I4", "I5", "I6", "I7"
	I8, I9, I10, I11, I12, I13, I14   Invariant = "I8", "I9", "I10", "I11", "I12", "I13", "I14"
	I15, I16, I17, I18, I19, I20, I21 Invariant = "I15", "I16", "I17", "I18", "I19", "I20", "I21"
	// Foreign: Berth writes only what is its concern.
	Foreign Invariant = "Foreign"
	// Status: what the status of a profile says is true.
	Status Invariant = "Status"
	// Complete: the history has no gap.
	Complete Invariant = "History"
)

// Row is an invariant and what decides it.
type Row struct {
	Invariant Invariant
	// What is the promise.
	What string
	// Inputs are the letters of the inputs that decide it here; empty for one that is decided
	// elsewhere only.
	Inputs string
	// Elsewhere is the test that decides it, or the part of it that cannot be seen here: its folder
	// and its name.
	Elsewhere string
}

// simulation is the test that decides most of what only the scheduler's own state shows.
const simulation = "test/simulation TestEveryHistoryKeepsTheInvariants"

// Invariants is the table of all invariants.
var Invariants = []Row{
	{I1, "bound once, to a node on which it fits", "E", simulation},
	{I2, "bound soon where it fits", "E", simulation},
	{I3, "no pod waits that could run, or without a reason", "EX", ""},
	{I4, "a bind names what decided it, and that ran", "E", ""},
	{I5, "one cycle, one generation", "", "test/integration/scenarios/swap TestSwap"},
	{I6, "what runs survives a refused spec", "E", ""},
	{I7, "no bind of an earlier leader", "E", ""},
	{I8, "the heap does not grow", "S", "test/handover/soak TestStream"},
	{I9, "goroutines and descriptors do not grow", "S", "scheduler/profile TestAThousandRebuildsLeaveNothingBehind"},
	{I10, "no forbidden request, no unused permission", "A", "test/integration TestIntegration"},
	{I11, "a slow plugin costs other profiles little", "", "scheduler/queue TestASlowProfileIsThrottledWhileOthersWait"},
	{I12, "the same decision again", "", "test/replay/run TestDecisionsFollowTheLog"},
	{I13, "quiet at the end, each status up to date", "EA", ""},
	{I14, "Reserve and Unreserve, assume and forget, in pairs", "", simulation},
	{I15, "victims of lower priority, for a nominated pod", "E", simulation},
	{I16, "no names of other namespaces", "E", ""},
	{I17, "few writes, bounded objects", "EA", "test/perf/explanations TestPendingPodsAreExplainedWithinTheBudget"},
	{I18, "no status goes back", "E", ""},
	{I19, "the cache is the truth", "", simulation},
	{I20, "the queue is in order after each swap", "", simulation},
	{I21, "no process ends by itself", "S", "scheduler TestAPodAtWhichAPluginPanicsIsQuarantined"},
	{Foreign, "only its own concerns are written", "A", ""},
	{Status, "the status of profiles is true", "E", ""},
	{Complete, "nothing is missing in the history", "E", ""},
}
