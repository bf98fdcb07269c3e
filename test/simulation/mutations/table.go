package main

import (
	"slices"
	"strings"
)

// mutant is a mutation and the tests that must find it.
type mutant struct {
	// name is mutation.NAME in the edits, breaks what it does.
	name, breaks string
	// killers are tests that must fail with it, each of them.
	killers []killer
	// unseen says why the simulation cannot find the mutation. Where it is empty,
	// the simulation must find it, too.
	unseen string
}

// killer is a test of one package, or several parted by |.
type killer struct{ pkg, test string }

// all are the killers, and the simulation where it must be one.
func (m mutant) all() []killer {
	if m.unseen != "" {
		return m.killers
	}
	return append(slices.Clone(m.killers), killer{simulation, everyHistory})
}

func killersOf(mutants []mutant) []killer {
	var all []killer
	for _, m := range mutants {
		all = append(all, m.all()...)
	}
	return all
}

func packagesOf(mutants []mutant) []string {
	var all []string
	for _, k := range killersOf(mutants) {
		if !slices.Contains(all, k.pkg) {
			all = append(all, k.pkg)
		}
	}
	slices.Sort(all)
	return all
}

// testsOf returns the tests of a package that must find one of mutants.
func testsOf(mutants []mutant, pkg string) []string {
	var all []string
	for _, k := range killersOf(mutants) {
		for _, test := range strings.Split(k.test, "|") {
			if k.pkg == pkg && !slices.Contains(all, test) {
				all = append(all, test)
			}
		}
	}
	return all
}

// The packages whose tests find mutations.
const (
	queue             = "scheduler/queue"
	eventhandlers     = "scheduler/eventhandlers"
	loop              = "scheduler"
	cache             = "scheduler/cache"
	cycle             = "scheduler/cycle"
	binding           = "scheduler/binding"
	defaultbinder     = "scheduler/plugins/defaultbinder"
	preemption        = "scheduler/preemption"
	defaultpreemption = "scheduler/plugins/defaultpreemption"
	serviceaffinity   = "scheduler/plugins/serviceaffinity"
	profile           = "scheduler/profile"
	sandbox           = "scheduler/sandbox"
	decision          = "scheduler/decision"
	explain           = "scheduler/explain"
	extender          = "scheduler/extender"
	scopedinformers   = "scheduler/scopedinformers"
	volumelimits      = "scheduler/plugins/nodevolumelimits"
	devices           = "scheduler/devices"
	allocation        = "scheduler/devices/allocation"
	dynamicresources  = "scheduler/plugins/dynamicresources"
	gangscheduling    = "scheduler/plugins/gangscheduling"
	podgroups         = "scheduler/podgroups"
	framework         = "scheduler/framework"
	noderesources     = "scheduler/plugins/noderesources"
	volumebinding     = "scheduler/plugins/volumebinding"
	upstreamconfig    = "scheduler/upstreamconfig"
	convert           = "cmd/kubectl-berth/convert"
	record            = "cmd/kubectl-berth/record"
	page              = "cmd/kubectl-berth/ui"
	export            = "controllers/export"
	leadership        = "scheduler/leadership"
	journal           = "scheduler/journal"
	recorder          = "scheduler/recorder"
	debug             = "scheduler/debug"
	controllers       = "controllers"
	history           = "controllers/history"
	unserved          = "scheduler/unserved"
	crashreport       = "controllers/crashreport"
	operator          = "operator"
	why               = "test/exactness/explanations"
	explainer         = "controllers/explainer"
	compile           = "scheduler/compile"
)

// everyCell is a table of cells. A mutation that it must find fails many of them:
// fewer than fewestCells is luck.
const (
	everyCell   = "TestEveryPodStateUnderEveryProfileChange"
	fewestCells = 10
)

// keptDryRuns compares kept dry runs, and statuses of nodes with nominated pods, with new ones.
const keptDryRuns = "TestKeptDryRunsEqualNewOnes"

// Why the simulation does not find some mutations.
const (
	noOrder        = "it holds pods to where they may go, not to who goes first: that is for the model of the queue, and for the oracle"
	noHaste        = "it asks whether a pod is tried in the end, not whether it is tried too often or too soon"
	rare           = "it takes a chance that one history in many thousands has"
	noKubectl      = "it runs no kubectl"
	noUsers        = "its profiles are reconciled by a few lines of its own"
	noPoison       = "its plugins panic and hang by chance, hardly ever at one pod again and again, and do not look at what they were shown"
	noWhy          = "nobody asks it why a pod waits"
	noVolumes      = "its pods have no claims"
	onlyVolumes    = "its pods have no claims; its histories of volumes find it"
	onlyDevices    = "its pods have no claims; its histories of devices find it"
	onlyControlled = "its profiles are reconciled by a few lines of its own; its histories of controllers find it"
	onlyExplained  = "nobody asks it why a pod waits; its histories of explanations find it"
	noPlans        = "any pods of lower priority may be its victims"
	noGroups       = "its pods are in no groups"
	keepsGroup     = "no pod of it changes its group"
	gangHandovers  = "its pods are in no groups; its histories of gangs and replicas find it"
	singlePods     = "its pods are in no groups; its histories of gangs find it"
	noTrial        = "its profiles are not tried before they run"
	noLeaders      = "its leaders send nothing any more once they have a successor, and their watches come as far as they must"
	loneLeaders    = noLeaders + "; its histories of replicas find it"
	noRefusal      = "its API server refuses no right"
	noBacklog      = "none of its histories binds as many pods as may be bound at once"
	noEvents       = "nobody reads its Events"
	noLooks        = "it reads caches and queues itself"
	noEnd          = "its loop never hangs, and its processes are killed without a warning"
	noExtenders    = "its profiles have no extenders"
	noFiles        = "it reads no configuration, and writes none"
	noMetrics      = "nobody scrapes it"
	noTraces       = "nobody collects its traces"
	noLeaks        = "it looks at what becomes of pods, not at what stays in memory"
	noGoodEnd      = "its leaders die, and do not end"
	noWire         = "its objects are never encoded"
	noWaits        = "nothing in it waits for a pod when it hears of a late plugin"
)

// table is every mutation, by what it breaks.
var table = slices.Concat(generalMutants, preemptionMutants, queueMutants, bindingMutants, explanationMutants, controllerMutants, deviceMutants, groupMutants, handoverMutants, pageMutants)

var generalMutants = []mutant{
	{"ExplainChangeIgnored", "a change of what is explained does not reach the pods that wait",
		[]killer{{loop, "TestAChangeOfExplainReachesThePodsThatWait"}, {loop, "TestWhichPodsAChangeRequeues"}}, noWhy},
	{"NewPreEnqueueSkipped", "the PreEnqueue plugins of a new Generation are not asked about a pod that the old one admitted",
		[]killer{{loop, "TestNoPodPassesAGateThatASwapBrings"}}, "nothing comes between pop and acquire there"},
	{"AssignedPodScheduled", "a pod that has a node is scheduled",
		[]killer{{loop, "TestAPodThatGotANodeAfterItWasPoppedIsNotTried"}}, "such an attempt fails and nobody is told"},
	{"FreedResourcesWakeNoPod", "the resources that a failed binding frees wake no pod",
		[]killer{{loop, "TestFreedResourcesWakeOtherPodsButNotTheOneThatReleasedThem"}}, ""},
	{"DeletedPodAdopted", "a profile adopts pods that were deleted while they were listed",
		[]killer{{loop, "TestAPodThatIsDeletedWhileItIsAdoptedIsNotKept"}}, rare},
	{"NominationsAdoptedInTurn", "a pod is scheduled before the nominations of the other adopted pods are known",
		[]killer{{loop, "TestPodsThatAreAdoptedHonourEachOthersNominations"}}, rare},
	{"EndedNominationAdopted", "a nomination that ends while its pod is adopted is kept",
		[]killer{{loop, "TestANominationThatEndsWhileItsPodIsAdoptedIsNotKept"}}, rare},
	{"EndedGateWritten", "a gate that is over is written over a newer condition",
		[]killer{{loop, "TestAGateThatIsOverIsNotWritten"}}, rare},
	{"UnwrittenNominationLost", "a pod loses a nomination that its status does not have yet",
		[]killer{{loop, "TestANominationIsKeptThoughTheStatusLacksIt"}}, rare},
	{"DeletedPodStaysAssumed", "a pod that another scheduler bound and that was deleted before it was assumed stays assumed",
		[]killer{{loop, "TestAPodBoundElsewhereAndDeletedBeforeItWasAssumedLeavesNothing"}}, rare},
	{"BoundPodForgotten", "a pod that the queue does not have counts as deleted, and its resources as free",
		[]killer{{loop, "TestABoundPodThatTheQueueForgotKeepsItsResources"}}, rare},
	{"NominationEndsByStatus", "the end of a nomination is left to the pod's status, which may not be written",
		[]killer{{loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"FailedReserveFreesNoNomination", "a nomination that ends because Reserve or Permit fails on its node wakes no pod",
		[]killer{{loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"GoexitFreesNoNomination", "a nomination that ends because a plugin ends its goroutine in Reserve wakes no pod",
		[]killer{{loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"PodInfoOfPluginKept", "the loop calls the methods of the PodInfo with which a plugin has nominated a pod",
		[]killer{{loop, "TestThePodInfoWithWhichAPluginNominatesIsNotKept"}}, "its plugins nominate with PodInfos of Berth"},
	{"ExplanationsNotRedacted", "explanations name nodes and pods of other namespaces",
		[]killer{{loop, "TestAnExplanationNamesNoOtherTenantsObject"}, {simulation, everyExplanationHistory}}, onlyExplained},
	{"DeletedPodExplained", "a pod that is deleted while it is explained stays explained",
		[]killer{{loop, "TestAPodThatIsDeletedIsExplainedNoMore"}}, noWhy},
	{"AbandonedCallSeesChanges", "a plugin call that was abandoned sees the nodes change",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, noPoison},
	{"NoResultIsSuccess", "an attempt whose plugin ends its goroutine counts as a success",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineFailsTheAttempt"}}, noPoison},
	{"GoexitNotIsolated", "a plugin that ends its goroutine ends the binding cycle, whose pod keeps its resources",
		[]killer{{loop, "TestGoexitIsLikeAPanicAtEveryPoint"}, {loop, "TestAPluginThatEndsItsGoroutineFailsTheAttempt"}}, noPoison},
	{"GroupGoexitNotIsolated", "a plugin that ends its goroutine in the attempt of a group ends the loop",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineFailsTheAttemptOfTheGroup"}, {loop, "TestAPluginThatEndsItsGoroutineInTheSearchForVictimsEvictsNobody"}}, noPoison},
	{"GoexitLeavesMemberCounted", "a pod of a group goes on counting on the node for which a plugin ended its goroutine in Reserve",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineFailsTheAttemptOfTheGroup"}}, noPoison},
	{"GoexitEndsTheUndoing", "pods of a group go on counting on their nodes where a plugin ends its goroutine in the check of another one",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineInTheCheckOfAGroupLeavesNoPodCounted"}}, noPoison},
	{"GoexitLeavesTriedMemberReserved", "what a plugin reserved in the search for a group's victims, before it ended its goroutine, stays reserved",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineInTheSearchForVictimsEvictsNobody"}}, noPoison},
	{"GoexitEndsTheBuild", "a constructor that ends its goroutine counts as a success",
		[]killer{{profile, "TestAFailedBuildKeepsTheRunningGeneration"}}, noPoison},
	{"GoexitFitsOnTrial", "a pod at which a plugin on trial ends its goroutine counts as one that fits",
		[]killer{{sandbox, "TestResultOfOnePod"}}, noPoison},
	{"AbandonedCallReadsOn", "a plugin call that was abandoned sees changes of nodes that it reads from its Handle",
		[]killer{{cache, "TestPinnedSnapshotDoesNotChangeForAbandonedCalls"}, {loop, "TestALatePluginMayListNodes"}}, noPoison},
	{"HungLoopIsAlive", "the liveness check passes while the loop hangs",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
	{"EndedLoopIsAlive", "the liveness check passes after the loop has ended",
		[]killer{{loop, "TestALoopThatEndedFailsTheLivenessCheck"}}, noEnd},
	{"IsolatedCallUnnamed", "the liveness check names the wait for a plugin that hangs, and not the plugin",
		[]killer{{loop, "TestACallThatHangsInTheAttemptOfAGroupFailsTheLivenessCheck"}}, noEnd},
	{"SlowCallsAddUp", "several slow plugin calls that all return count as one that hangs",
		[]killer{{loop, "TestASlowPluginDoesNotFailTheLivenessCheck"}}, noEnd},
	{"SlowGroupCallsAddUp", "several slow plugin calls for one pod of a group count as one that hangs",
		[]killer{{loop, "TestASlowPluginInTheAttemptOfAGroupDoesNotFailTheLivenessCheck"}}, noEnd},
	{"SlowGroupIsHung", "a group of many slow pods counts as one that hangs",
		[]killer{{loop, "TestASlowPluginInTheAttemptOfAGroupDoesNotFailTheLivenessCheck"}}, noEnd},
	{"BindingsEndWithTheLoop", "binding cycles are cancelled when the process is asked to end",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"WaitingPodsDelayShutdown", "pods that wait at Permit keep the process from ending",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"AssumedTwice", "a pod is assumed although its UID has a node",
		[]killer{{cache, "TestCacheEqualsTheReferenceModel"}, {binding, "TestBeginRejectsAnAssumedPod"}}, ""},
	{"ConfirmedTwice", "an assumed pod counts twice once its binding is confirmed",
		[]killer{{cache, "TestCache"}}, ""},
	{"AssignedPodNominated", "a pod that has a node is nominated as well",
		[]killer{{cache, "TestAnAssignedPodIsNotNominated"}}, "nothing comes between putting a pod down and nominating it there"},

	{"EarlyUpdateDecides", "the numbers of images and the order of nodes are those of an update between two attempts",
		[]killer{{cache, "TestUpdatesBetweenAttemptsChangeNoAttempt"}}, rare},
	{"RotationNotAdvanced", "every search starts at the same node",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"OneNodeTooFew", "the search ends with the last feasible node that it needs, not with the one after",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"FirstOfATie", "the first of nodes with equal scores is chosen",
		[]killer{{cycle, "TestSelectHostEqualsTheRootOfAHeap"}}, noOrder},
	{"VerdictOutlivesNode", "a cached verdict outlives a change of its node",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it recomputes what is chosen, and then goes the plain way"},
	{"FirstVerdictsOfOthers", "the first pod of a class reads cached verdicts of another class",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, rare},
	{"ScoresOfOtherRequests", "a class takes over the scores of pods with other requests",
		[]killer{{cycle, "TestClassesThatDifferOnlyInRequestsAreDecidedAsByTheReference"}}, rare},
	{"OutdatedClassTakenOver", "a class takes over what was computed before Services changed",
		[]killer{{cycle, "TestClassesThatDifferOnlyInRequestsAreDecidedAsByTheReference"}}, rare},
	{"LargeAmountsDividedAsFloats", "amounts are divided as floats where these round to another integer",
		[]killer{{noderesources, "TestScoresOfCPUAndMemoryEqualTheReference"}}, rare},
	{"OpaqueFilterSkipped", "an opaque plugin is not asked about a node with a cached verdict",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it knows no such plugin"},
	{"LabelsReadOutsideTheLoop", "a profile that is being built adds to the labels that the loop reads",
		[]killer{{cycle, "TestNewEquivalenceCacheDoesNotChangeTheSnapshotsLabels"}}, "one thing happens at a time there"},
	{"DroppedCountsCopied", "the counts of a new set of pods are copied from counts that are no longer updated",
		[]killer{{cache, "TestCountsBeyondTheKeyLimitEqualAScan"}}, rare},
	{"CountsNeverEvicted", "the counts of a set of pods are never evicted",
		[]killer{{cache, "TestRetainedCountsAreBounded"}}, "a bound changes no decision"},
	{"TopologiesNeverEvicted", "a topology key is never evicted",
		[]killer{{cache, "TestAnUnusedTopologyKeyIsEvicted"}}, "a bound changes no decision"},
	{"AbsentTopologiesEvictOthers", "a topology key that no node has evicts one that nodes have",
		[]killer{{cache, "TestKeysThatNoNodeCarriesEvictNoOthers"}}, "a bound changes no decision"},
	{"DeletedNodeUnseen", "ServiceAffinity does not try a pod again when the node of the pod that it has to follow is deleted",
		[]killer{{serviceaffinity, "TestADeletedNodeWakesThePodsThatFollowedItsPod"}}, "no profile of its runs the plugin"},
	{"NominatedPodWithoutNode", "ServiceAffinity looks for a nominated pod on the node in its spec",
		[]killer{{serviceaffinity, "TestFilterFollowsAPodThatIsNominated"}}, "no profile of its runs the plugin"},
	{"LastPodClassUnchecked", "a pod that is retried at once keeps its class, whatever labels selectors name by then",
		[]killer{{cycle, "TestThePodOfTheLastAttemptIsClassifiedAgain"}}, rare},
	{"BudgetPerProfile", "each equivalence cache has a memory budget of its own",
		[]killer{{cycle, "TestProfilesStayWithinOneBudget"}}, "a bound changes no decision"},
	{"EvictedClassUsed", "an evicted class is used when its pod is retried",
		[]killer{{cycle, "TestAnEvictedClassIsNotUsedAgain"}}, "a bound changes no decision"},
	{"ExcludedNodesClose", "a node that the pod's selector excludes is listed among the closest",
		[]killer{{loop, "TestTheClosestNodesAreThoseThatWaitingMayOpen"}}, noWhy},
	{"ExplainedTwice", "an explanation has the same line twice",
		[]killer{{cycle, "TestRejections"}, {explainer, "TestClosestNodesThatReadAlikeAreOneEntry"}}, noWhy},
	{"FarSuggestions", "a name is suggested that has little in common with the one given",
		[]killer{{compile, "TestSuggest"}}, noUsers},
	{"OneArgumentError", "only the first kind of error in a plugin's arguments is reported",
		[]killer{{compile, "TestEveryArgumentErrorIsReported"}}, noUsers},
	{"ExtenderRejectionsResolvable", "an unresolvable rejection by an extender counts as one that preemption resolves",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"IgnorableExtenderFails", "an ignorable extender that fails makes the attempt fail",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"ExtendersCached", "the equivalence cache is used for a pod that an extender is interested in",
		[]killer{{cycle, "TestExtenderResultsAreNotCached"}}, noExtenders},

	{"ClassKeyWithoutTolerations", "pods with different tolerations are of one class",
		[]killer{{cycle, "FuzzClassKeys"}, {cycle, "TestTheCacheEqualsTheReference"}}, "its pods tolerate nothing"},

	{"PanicNotRecovered", "a plugin's panic is not recovered",
		[]killer{{loop, "TestEveryAnswerAtEveryPoint"}, {binding, "TestOrderOfThePluginCalls"}}, ""},
	{"TrialMeasured", "metrics count the plugin calls of trials",
		[]killer{{profile, "TestATrialLeavesNoMetricSeries"}}, noTrial},
	{"NewProfileForgotten", "a profile that is created as the last generation of its name ends loses its metric series for good",
		[]killer{{profile, "TestANameIsForgottenWhenNothingIsLeftOfIt"}}, noMetrics},
	{"AbandonedAttemptGoesOn", "an abandoned attempt goes on when its plugin returns",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, ""},
	{"StatusesOfClaimsKept", "a node with nominated pods has the status that it had before a claim lost its devices",
		[]killer{{cycle, "TestStatusesThatDependOnClaimsAreNotKept"}}, noVolumes},
	{"NaiveSwap", "a Generation is swapped, pods that wait are not requeued, and the old one is closed at once",
		[]killer{{profile, "TestAGenerationClosesWithItsLastBinding"}, {loop, "TestASwapDecidesByTheNewGeneration"}, {loop, everyCell}}, ""},
	{"ClosedDuringBind", "a Generation is closed while bindings hold it",
		[]killer{{profile, "TestAGenerationClosesWithItsLastBinding"}, {loop, "TestABindingOutlivesASwap"}, {loop, everyCell}}, ""},
	{"HintOfClosedGeneration", "a queueing hint of a closed Generation is called",
		[]killer{{profile, "TestAClosedGenerationsPluginsAreNotCalled"}}, rare},
	{"FailedBuildOverwrites", "a profile whose new plugins cannot be built stops running",
		[]killer{{profile, "TestAFailedBuildKeepsTheRunningGeneration"}}, ""},
	{"EveryNamespaceAllowed", "a profile schedules the pods of every namespace",
		[]killer{{profile, "TestPodsOfOtherNamespacesAreHeld"}}, "its profiles take the pods of every namespace"},
	{"TrialLeftOpen", "plugins that were built for a trial are not closed",
		[]killer{{profile, "TestTrialOutcomes"}, {profile, "TestAThousandTrialsLeaveNothingBehind"}}, noTrial},
	{"HungCloseAwaited", "a Close that hangs is waited for, under the lock under which the profile changes",
		[]killer{{profile, "TestAPluginThatDoesNotCloseKeepsNoChangeWaiting"}, {profile, "TestTheOtherPluginsOfABuildAreClosedWhenOneHangs"}, {profile, "TestAGenerationThatDoesNotCloseIsNoOldGeneration"}}, noPoison},
	{"PluginOfAnyNameBuilt", "a plugin whose method Name returns another name than it is registered under counts as in-tree",
		[]killer{{loop, "TestAPluginOfAnotherNameIsNotBuilt"}}, noPoison},
	{"CloneNotIsolated", "a plugin's state whose Clone panics ends the process",
		[]killer{{loop, "TestAStateThatCannotBeClonedCostsItsPodsOnly"}}, noPoison},
	{"NilGroupStatusPanics", "a PodGroupPostFilter plugin that returns a nil status ends the process",
		[]killer{{loop, "TestPodGroupPostFilterMayReturnANilStatus"}}, noPoison},
	{"HungClosesUnbounded", "each change of a profile whose plugins do not close leaves one more call behind",
		[]killer{{profile, "TestAGenerationThatDoesNotCloseIsNoOldGeneration"}}, noPoison},
	{"HungHandlerAwaited", "a change waits for the informer handler of a plugin that hangs",
		[]killer{{profile, "TestAnInformerHandlerThatHangsKeepsNoChangeWaiting"}, {scopedinformers, "TestAHandlerThatHangsKeepsNoFactoryOpen"}}, noPoison},
	{"AbandonedCallsUncounted", "abandoned plugin calls are not counted",
		[]killer{{loop, "TestCallsThatDoNotReturnAreCounted"}}, noPoison},
	{"HungSortAwaited", "a Less that hangs is waited for",
		[]killer{{loop, "TestASortThatHangsIsReplaced"}}, noPoison},
	{"HungHintCalledAgain", "hints of a plugin that hangs are waited for, one after the other",
		[]killer{{loop, "TestTheQueueWaitsForOneOfManyHintsThatHang"}}, noPoison},
	{"HungHintAwaited", "a hint that hangs is waited for",
		[]killer{{loop, "TestAHintThatHangsWakesThePod"}}, noPoison},
	{"BindingNotMonitored", "a plugin that blocks a binding cycle is not reported",
		[]killer{{loop, "TestAPluginThatHangsInTheBindingCycleIsNamed"}}, noPoison},
	{"LatePreEnqueueForgotten", "a PreEnqueue plugin that returned too late is not called again",
		[]killer{{loop, "TestASlowGateIsCalledAgain"}}, ""},
	{"BrokenSortKept", "a QueueSort plugin that panicked keeps ordering pods",
		[]killer{{loop, "TestASortThatPanicsIsReplaced"}}, noPoison},
	{"TrialCallsExtenders", "a trial calls the profile's extenders",
		[]killer{{profile, "TestATrialCallsNoExtender"}}, noTrial},
	{"VolumesNotReleased", "a volume stays assumed for a pod that is not bound",
		[]killer{{"scheduler/volumes", "TestReadsReturnAssumedObjects"}, {loop, "TestAReleasedVolumeWakesPodsThatWantIt"}, {simulation, everyVolumeHistory}}, onlyVolumes},
	{"VolumesByGeneration", "each Generation has assumed volumes of its own",
		[]killer{{loop, "TestASwapKeepsAssumedVolumes"}}, noVolumes},
	{"QueueSortNotTried", "a trial does not evaluate the QueueSort plugin",
		[]killer{{sandbox, "TestQueueSortIsEvaluated"}}, noTrial},
	{"SandboxKeepsDeleted", "a reused sandbox keeps what was deleted",
		[]killer{{sandbox, "TestAReusedSandboxIsLikeANewOne"}}, noTrial},
	{"RunningPodKeepsResources", "a trial of a running pod counts the pod's own resources as taken",
		[]killer{{sandbox, "TestPodsThatTakeResourcesInTheSandbox"}}, noTrial},
	{"TrialRejectsOldFailures", "a failure that the previous Blueprint has as well rejects the new one",
		[]killer{{profile, "TestCompare"}, {profile, "TestTrialOutcomes"}}, noTrial},
	{"OneFailureRejects", "a failure at one pod rejects a profile under whose name nothing runs",
		[]killer{{profile, "TestWhereNothingRunsATrialFailsIfItsPluginsFailForAllPods"}}, noTrial},
	{"LateTrialResultCounts", "a trial's result after the time limit counts",
		[]killer{{sandbox, "TestALateResultDoesNotCount"}}, noTrial},
	{"ExtenderRedirected", "redirects by an extender are followed",
		[]killer{{extender, "TestExtenderFailures"}}, noExtenders},
	{"ExtenderAddressUnchecked", "an extender may have any address",
		[]killer{{extender, "TestForbiddenAddressesAreNotDialled"}, {extender, "TestCheckConnect"}}, noExtenders},
	{"ExtenderAnswerUnbounded", "an extender's answer is read without a limit",
		[]killer{{extender, "TestExtenderFailures"}}, noExtenders},
	{"ExtenderScoreUnbounded", "an extender may give a score above 10",
		[]killer{{extender, "TestPrioritizeAnswers"}}, noExtenders},

	{"UnresolvableNodesIgnored", "an extender's FailedAndUnresolvableNodes are not read",
		[]killer{{extender, "TestFilterAnswers"}}, noExtenders},
	{"NodeNamesOfAnyExtender", "the NodeNames of an extender without a node cache are read instead of its Nodes",
		[]killer{{extender, "TestFilterAnswers"}}, noExtenders},
	{"UnknownScoreRefused", "a score of a node that was not in the request makes all scores of an extender invalid",
		[]killer{{extender, "TestPrioritizeAnswers"}}, noExtenders},
	{"ExtenderLeftOpen", "the connections to an extender stay open after its client is closed",
		[]killer{{extender, "TestCloseClosesIdleConnections"}}, noExtenders},
	{"FirstAddressTakesAll", "the first address of an extender may take the whole time of a request",
		[]killer{{extender, "TestAddressesAreDialledInTurn"}}, noExtenders},
	{"ScopedIndexBehind", "a plugin's index has a change only after the next read",
		[]killer{{scopedinformers, "TestAnIndexIsNeverBehindAnEvent"}, {volumelimits, "TestFilterSeesTheAttachmentWhoseEventRequeuedThePod"}}, noVolumes},
	{"RelistLeavesDeleted", "a plugin's index keeps objects that a relist did not return",
		[]killer{{scopedinformers, "TestAnIndexHasNothingThatARelistDidNotFind"}, {scopedinformers, "TestAnIndexIsExactAfterAWatchThatBroke"}}, noVolumes},
	{"ReplacedObjectUpdated", "an object that was deleted and created anew while no watch was open is an update, which hints pass by",
		[]killer{{eventhandlers, "TestAnObjectThatTakesThePlaceOfAnotherIsADeletionAndAnAddition"}}, noVolumes},
	{"ReplacedCustomResourceUpdated", "a custom resource that was deleted and created anew while no watch was open is an update",
		[]killer{{scopedinformers, "TestACustomResourceThatTakesThePlaceOfAnotherIsADeletionAndAnAddition"}}, noVolumes},
	{"FilteredInformerShared", "plugins get the informer that the first of them made with its own constructor, also after a change of its arguments",
		[]killer{{scopedinformers, "TestAnInformerOfAPluginsOwnConstructorBelongsToItsFactory"}}, "its plugins make no informers"},
	{"PodComparedByName", "a pod that waits for its volumes is compared by name, not by UID",
		[]killer{{volumebinding, "TestPreBind"}}, noVolumes},
	{"OtherVolumeAccepted", "a pod is bound although its claim was bound to another volume than the planned one",
		[]killer{{volumebinding, "TestPreBind"}, {simulation, everyVolumeHistory}}, onlyVolumes},
	{"DeletedVolumeUnseen", "a pod is not tried again when a volume is deleted that was reserved for its claim",
		[]killer{{volumebinding, "TestHints"}}, noVolumes},
	{"DeletedCSINodeUnseen", "a pod is not tried again when a CSINode with migrated plugins is deleted",
		[]killer{{volumebinding, "TestHints"}}, noVolumes},
	{"ReserveSkipped", "the sandbox does not run Reserve, so that the next pod finds the same volumes and devices free",
		[]killer{{"cmd/kubectl-berth/try", "TestTry"}}, noVolumes},

	{"BindingMonitorLocked", "a lock is held while a late call in a binding cycle is reported",
		[]killer{{loop, "TestAPodIsBoundWhileItsAbandonedCallIsReported"}}, noWaits},
	{"OldGenerationsKeptWithoutAttempts", "a process that makes no attempt keeps each generation that was ever replaced",
		[]killer{{loop, "TestWithoutAttemptsOldGenerationsLeaveNothingBehind"}}, noLeaks},
	{"IdleLeaderKeepsChanges", "a leader that has no pod to try keeps every change of the cluster",
		[]killer{{loop, "TestAnIdleLeaderAppliesTheChangesOfTheCluster"}}, noLeaks},
	{"OldGenerationKeepsCache", "a Generation that was replaced keeps its equivalence cache until it is closed",
		[]killer{{loop, "TestAReplacedGenerationReleasesItsEquivalenceCache"}}, noLeaks},

	{"PluginsNotMeasured", "the duration of plugins is not measured in any attempt",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"EventHandlingNotMeasured", "the duration of event handling is not measured",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"UnschedulableSpanLeftOpen", "the span of an attempt that finds no node is never ended",
		[]killer{{loop, "TestAnAttemptIsATrace"}}, noTraces},
	{"ProbesNamePods", "a failed liveness probe names the pod in the loop and its profile",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
}
