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
	convert           = "cmd/kubectl-berth/convert"
	record            = "cmd/kubectl-berth/record"
	export            = "controllers/export"
	leadership        = "scheduler/leadership"
	journal           = "scheduler/journal"
	recorder          = "scheduler/recorder"
	debug             = "scheduler/debug"
	controllers       = "controllers"
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

// Why the simulation does not find some mutations.
const (
	noOrder     = "it holds pods to where they may go, not to who goes first: that is for the model of the queue, and for the oracle"
	noHaste     = "it asks whether a pod is tried in the end, not whether it is tried too often or too soon"
	rare        = "it takes a chance that one history in many thousands has"
	noUsers     = "its profiles are reconciled by a few lines of its own"
	noPoison    = "its plugins panic and hang by chance, hardly ever at one pod again and again, and do not look at what they were shown"
	noWhy       = "nobody asks it why a pod waits"
	noVolumes   = "its pods have no claims"
	noGroups    = "its pods are in no groups"
	singlePods  = "its pods are in no groups; its histories of gangs find it"
	noTrial     = "its profiles are not tried before they run"
	noLeaders   = "its leaders send nothing any more once they have a successor, and their watches come as far as they must"
	noRefusal   = "its API server refuses no right"
	noEvents    = "nobody reads its Events"
	noLooks     = "it reads caches and queues itself"
	noEnd       = "its loop never hangs, and its processes are killed without a warning"
	noExtenders = "its profiles have no extenders"
	noFiles     = "it reads no configuration, and writes none"
	noMetrics   = "nobody scrapes it"
	noTraces    = "nobody collects its traces"
	noLeaks     = "it looks at what becomes of pods, not at what stays in memory"
	noWaits     = "nothing in it waits for a pod when it hears of a late plugin"
)

// table is every mutation, by what it breaks.
var table = slices.Concat(generalMutants, deviceMutants, groupMutants)

var generalMutants = []mutant{
	{"EventInFlightDropped", "events that happen between pop and requeue are not kept",
		[]killer{{queue, "TestTransitions"}, {loop, "TestARefusalReachesPodStatusLedgerAndQueue"}}, ""},
	{"HintsAlwaysSkip", "every queueing hint counts as QueueSkip",
		[]killer{{queue, "TestEvaluateHints"}}, ""},
	{"HeapNotRebuilt", "a new QueueSort takes over a heap that another one ordered",
		[]killer{{queue, "TestSwaps"}, {loop, "TestASwapToAnotherSortPluginReordersThePodsThatWait"}}, ""},
	{"LessOfClosedGeneration", "a heap keeps calling Less of a Generation that was replaced",
		[]killer{{queue, "TestSubQueuesAreRemovedWithTheirProfiles"}}, ""},
	{"SubQueuesNotRotated", "Pop always begins with the same sub-queue",
		[]killer{{queue, "TestSubQueuesOfSeveralProfiles"}}, noOrder},
	{"PoppedFromABatch", "a pod is popped while others that the same event woke are still being requeued",
		[]killer{{queue, "TestNothingIsPoppedBeforeAllWokenPodsAreRequeued"}}, noOrder},
	{"EventFilterIgnored", "an event that is not meant for a pod in flight reaches it",
		[]killer{{queue, "TestTheFilterOfAnEventAppliesToPodsInFlight"}}, noHaste},
	{"OlderVersionAccepted", "an older version of a pod replaces a newer one in the queue",
		[]killer{{queue, "TestAnOlderVersionOfAPodIsIgnored"}}, "what was decided about an older version is not bound, and tried again"},
	{"HeldReportedAgain", "a pod that is held already is reported as newly held",
		[]killer{{queue, "TestTransitions"}}, "to write what is written is no write"},
	{"OpenGateUnnoticed", "a pod whose gate opened without an event stays gated",
		[]killer{{queue, "TestAPodWhoseGateOpenedIsRequeued"}}, rare},
	{"BackoffEndsWithASwap", "a swap ends the backoff of pods",
		[]killer{{queue, "TestSwaps"}}, noHaste},
	{"RejectedPodNotRequeued", "a pod whose rejecting plugin changed is not requeued",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}, {loop, "TestWhichPodsAChangeRequeues"}}, ""},
	{"ChosenNodeIgnored", "a pod that was rejected on its chosen node is not requeued when another node may be chosen",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}, {loop, "TestWhichPodsAChangeRequeues"}}, rare},
	{"IteratorsShareTheirPlace", "of two iterations over a profile's pods each skips pods that the other visited",
		[]killer{{queue, "TestTwoIterationsOverOneProfileSkipNoPod"}, {queue, "TestAnIterationVisitsEachRemainingPodOnce"}}, "the simulation lets one walk go on at a time"},
	{"SliceTooLarge", "a swap visits many more pods under one hold of the lock",
		[]killer{{queue, "TestASliceOfAProfileChangeIsBounded"}}, noHaste},
	{"SwapMissedWhileRequeued", "a swap does not reach a pod that is being requeued",
		[]killer{{queue, "TestSwaps"}, {queue, "TestTheQueueAgreesWithTheModel"}, {loop, everyCell}}, ""},
	{"AdmittedWithoutPreEnqueue", "a pod that is popped before a swap reaches it counts as admitted by the new PreEnqueue plugins",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}}, rare},
	{"ExplainChangeIgnored", "a change of what is explained does not reach the pods that wait",
		[]killer{{loop, "TestAChangeOfExplainReachesThePodsThatWait"}, {loop, "TestWhichPodsAChangeRequeues"}}, noWhy},
	{"FurtherRejectorsIgnored", "a plugin that would still reject the pod after preemption is removed, and the pod is not requeued",
		[]killer{{loop, "TestARejectorThatRemainsAfterPreemptionCounts"}}, rare},

	{"PluginFaultsUncounted", "each attempt forgets earlier panics of plugins at a pod",
		[]killer{{queue, "TestQuarantine"}, {loop, "TestAPodAtWhichAPluginPanicsIsQuarantined"}}, noPoison},
	{"NeverQuarantined", "a pod at which plugins panic again and again is retried like any other",
		[]killer{{queue, "TestQuarantine"}, {loop, "TestAPodAtWhichAPluginPanicsIsQuarantined"}}, noPoison},
	{"SlowProfileNotThrottled", "a profile with long attempts is not throttled",
		[]killer{{queue, "TestASlowProfileIsThrottledWhileOthersWait"}}, noHaste},

	{"RequeuedAsOlderVersion", "a pod that changed while it was bound is retried in its older version",
		[]killer{{eventhandlers, "TestHistories"}, {loop, "TestAPodThatChangesWhileItIsBoundIsRetriedAtItsNewVersion"}}, ""},
	{"NominationOutlivesProfile", "a nomination that ends while its profile is gone is kept",
		[]killer{{eventhandlers, "TestHistories"}}, rare},
	{"DeletedWithoutNode", "the deletion of an assumed pod does not name its node",
		[]killer{{eventhandlers, "TestHistories"}}, rare},
	{"DeletedPodWaitsAtPermit", "a pod that is deleted keeps waiting at Permit",
		[]killer{{eventhandlers, "TestHistories"}, {loop, "TestAPodThatIsDeletedBeforePermitDoesNotWaitThere"}, {loop, "TestAPodThatIsDeletedLeavesNothingBehind"}}, ""},

	{"NominationEndsSilently", "the end of a nomination that the pod's status never had wakes no pod",
		[]killer{{eventhandlers, "TestNodeOfFreedResources"}, {loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
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
	{"UnwrittenNominationLost", "a pod loses a nomination that its status does not have yet",
		[]killer{{loop, "TestANominationIsKeptThoughTheStatusLacksIt"}}, rare},
	{"DeletedPodStaysAssumed", "a pod that another scheduler bound and that was deleted before it was assumed stays assumed",
		[]killer{{loop, "TestAPodBoundElsewhereAndDeletedBeforeItWasAssumedLeavesNothing"}}, rare},
	{"BoundPodForgotten", "a pod that the queue does not have counts as deleted, and its resources as free",
		[]killer{{loop, "TestABoundPodThatTheQueueForgotKeepsItsResources"}}, rare},
	{"LeavingPodsSorted", "a sub-queue that all profiles leave keeps calling Less of the one that left first",
		[]killer{{queue, "TestLessOfAClosedProfileIsNotCalled"}}, rare},
	{"TerminatingPodNominated", "a pod that is being deleted keeps its nomination",
		[]killer{{eventhandlers, "TestNodeOfFreedResources"}, {cache, "TestATerminatingPodIsNotNominated"}}, rare},
	{"NominationEndsByStatus", "the end of a nomination is left to the pod's status, which may not be written",
		[]killer{{loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"LostLeadershipIsAVerdict", "the end of a leadership is written as a verdict about the pod",
		[]killer{{loop, "TestTheEndOfALeadershipIsNoSchedulingFailure"}}, "its processes are killed, and never step down"},
	{"ExplanationsNotRedacted", "explanations name nodes and pods of other namespaces",
		[]killer{{loop, "TestAnExplanationNamesNoOtherTenantsObject"}}, noWhy},
	{"TaintUpdatesNotExplained", "explanations do not say that changed taints of a node wake a pod",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"WithdrawnForGood", "a pod whose explanation was withdrawn is not explained again",
		[]killer{{explain, "TestQueue"}, {explain, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"DeletedPodExplained", "a pod that is deleted while it is explained stays explained",
		[]killer{{loop, "TestAPodThatIsDeletedIsExplainedNoMore"}}, noWhy},
	{"AbandonedCallSeesChanges", "a plugin call that was abandoned sees the nodes change",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, noPoison},
	{"NoResultIsSuccess", "an attempt whose plugin ends its goroutine counts as a success",
		[]killer{{loop, "TestAPluginThatEndsItsGoroutineFailsTheAttempt"}}, noPoison},
	{"AbandonedCallReadsOn", "a plugin call that was abandoned sees changes of nodes that it reads from its Handle",
		[]killer{{cache, "TestPinnedSnapshotDoesNotChangeForAbandonedCalls"}, {loop, "TestALatePluginMayListNodes"}}, noPoison},
	{"HungLoopIsAlive", "the liveness check passes while the loop hangs",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
	{"SlowCallsAddUp", "several slow plugin calls that all return count as one that hangs",
		[]killer{{loop, "TestASlowPluginDoesNotFailTheLivenessCheck"}}, noEnd},
	{"BindingsEndWithTheLoop", "binding cycles are cancelled when the process is asked to end",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"WaitingPodsDelayShutdown", "pods that wait at Permit keep the process from ending",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"WatchLagIsADifference", "what a watch has not delivered yet is reported as a difference",
		[]killer{{debug, "TestATransientDifferenceIsIgnored"}}, noLooks},

	{"AssumedTwice", "a pod is assumed although its UID has a node",
		[]killer{{cache, "TestCacheEqualsTheReferenceModel"}, {binding, "TestBeginRejectsAnAssumedPod"}}, ""},
	{"ConfirmedTwice", "an assumed pod counts twice once its binding is confirmed",
		[]killer{{cache, "TestCache"}}, ""},
	{"AssignedPodNominated", "a pod that has a node is nominated as well",
		[]killer{{cache, "TestAnAssignedPodIsNotNominated"}}, "nothing comes between putting a pod down and nominating it there"},

	{"RotationNotAdvanced", "every search starts at the same node",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"OneNodeTooFew", "the search ends with the last feasible node that it needs, not with the one after",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"FirstOfATie", "the first of nodes with equal scores is chosen",
		[]killer{{cycle, "TestSelectHostEqualsTheRootOfAHeap"}}, noOrder},
	{"VerdictOutlivesNode", "a cached verdict outlives a change of its node",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it recomputes what is chosen, and then goes the plain way"},
	{"OpaqueFilterSkipped", "an opaque plugin is not asked about a node with a cached verdict",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it knows no such plugin"},
	{"LabelsReadOutsideTheLoop", "a profile that is being built adds to the labels that the loop reads",
		[]killer{{cycle, "TestNewEquivalenceCacheDoesNotChangeTheSnapshotsLabels"}}, "one thing happens at a time there"},
	{"CountsNeverEvicted", "the counts of a set of pods are never evicted",
		[]killer{{cache, "TestRetainedCountsAreBounded"}}, "a bound changes no decision"},
	{"TopologiesNeverEvicted", "a topology key is never evicted",
		[]killer{{cache, "TestAnUnusedTopologyKeyIsEvicted"}}, "a bound changes no decision"},
	{"AbsentTopologiesEvictOthers", "a topology key that no node has evicts one that nodes have",
		[]killer{{cache, "TestKeysThatNoNodeCarriesEvictNoOthers"}}, "a bound changes no decision"},
	{"NominatedPodWithoutNode", "ServiceAffinity looks for a nominated pod on the node in its spec",
		[]killer{{serviceaffinity, "TestFilterFollowsAPodThatIsNominated"}}, "no profile of its runs the plugin"},
	{"LastPodClassUnchecked", "a pod that is retried at once keeps its class, whatever labels selectors name by then",
		[]killer{{cycle, "TestThePodOfTheLastAttemptIsClassifiedAgain"}}, rare},
	{"BudgetPerProfile", "each equivalence cache has a memory budget of its own",
		[]killer{{cycle, "TestProfilesStayWithinOneBudget"}}, "a bound changes no decision"},
	{"EvictedClassUsed", "an evicted class is used when its pod is retried",
		[]killer{{cycle, "TestAnEvictedClassIsNotUsedAgain"}}, "a bound changes no decision"},
	{"ClosestNodesOutliveSnapshot", "the closest nodes of a pod's class are never computed again",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"ExcludedNodesClose", "a node that the pod's selector excludes is listed among the closest",
		[]killer{{loop, "TestTheClosestNodesAreThoseThatWaitingMayOpen"}}, noWhy},
	{"ExplainedTwice", "an explanation has the same line twice",
		[]killer{{cycle, "TestRejections"}, {explainer, "TestClosestNodesThatReadAlikeAreOneEntry"}}, noWhy},
	{"FarSuggestions", "a name is suggested that has little in common with the one given",
		[]killer{{compile, "TestSuggest"}}, noUsers},
	{"OneArgumentError", "only the first kind of error in a plugin's arguments is reported",
		[]killer{{compile, "TestEveryArgumentErrorIsReported"}}, noUsers},
	{"ErrorByEveryCondition", "each condition that an error makes False reports the error in an Event of its own",
		[]killer{{controllers, "TestAnErrorIsOneEvent"}}, noUsers},
	{"NodesUnordered", "the nodes of the start are in the order of client-go's map",
		[]killer{{eventhandlers, "TestInitialNodesAreAddedByName"}}, "it has no informers"},
	{"AnnotationNamesNodes", "with detail: Reasons the annotation names other nodes than the pod's own",
		[]killer{{decision, "TestAnnotationDetail"}, {explainer, "TestDetailDecidesWhetherNodesAreCounted"}}, "nobody reads its annotations"},
	{"ExtenderRejectionsResolvable", "an unresolvable rejection by an extender counts as one that preemption resolves",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"IgnorableExtenderFails", "an ignorable extender that fails makes the attempt fail",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"ExtendersCached", "the equivalence cache is used for a pod that an extender is interested in",
		[]killer{{cycle, "TestExtenderResultsAreNotCached"}}, noExtenders},

	{"LastVictimIgnored", "the deletion of the last victim does not requeue the preemptor",
		[]killer{{defaultpreemption, "TestDeletionOfALowerPriorityPodRequeuesThePreemptor"}}, rare},

	{"ClassKeyWithoutTolerations", "pods with different tolerations are of one class",
		[]killer{{cycle, "FuzzClassKeys"}, {cycle, "TestTheCacheEqualsTheReference"}}, "its pods tolerate nothing"},

	{"PanicNotRecovered", "a plugin's panic is not recovered",
		[]killer{{loop, "TestEveryAnswerAtEveryPoint"}, {binding, "TestOrderOfThePluginCalls"}}, ""},
	{"UnreserveInOrder", "Unreserve runs in the order of Reserve",
		[]killer{{binding, "TestOrderOfThePluginCalls"}, {loop, "TestEveryAnswerAtEveryPoint"}}, ""},
	{"TrialMeasured", "metrics count the plugin calls of trials",
		[]killer{{profile, "TestATrialLeavesNoMetricSeries"}}, noTrial},
	{"AbandonedAttemptGoesOn", "an abandoned attempt goes on when its plugin returns",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, ""},
	{"FirstRejectionAlone", "only the first plugin's reasons against a node are reported",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"NominationsNotCounted", "the closest nodes are computed as if no pod was nominated",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},

	{"ForgetSkipped", "a pod stays assumed after its binding failed",
		[]killer{{binding, "TestOrderOfThePluginCalls"}, {binding, "TestBindOutcomes"}, {loop, "TestEveryAnswerAtEveryPoint"}}, ""},
	{"ForgottenFirst", "a pod is forgotten before Unreserve runs",
		[]killer{{binding, "TestThePodStaysAssumedUntilUnreserve"}}, ""},
	{"PermitRejectionNotUnreserved", "Unreserve does not run for a pod that was rejected while it waited at Permit",
		[]killer{{binding, "TestWaitingOnPermit"}}, ""},
	{"WaitsAfterUndo", "a pod whose binding was undone still waits at Permit",
		[]killer{{binding, "TestAFailedPreflightLeavesNoPodWaiting"}}, ""},
	{"EventsMissedAtPermit", "events are not recorded for a pod that waits at Permit",
		[]killer{{binding, "TestWaitingOnPermit"}}, ""},
	{"NominationOutlivesAssume", "an assumed pod is still nominated",
		[]killer{{binding, "TestOrderOfThePluginCalls"}}, ""},
	{"ConflictIsFailure", "a conflict counts as a failed bind",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"UnknownIsFailure", "an answer that leaves open whether the bind took place counts as a failed bind",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"UntrimmedCompared", "every pod with a command or a probe counts as changed when it is read from the API server",
		[]killer{{binding, "TestATrimmedPodIsNotSeenAsChanged"}}, ""},
	{"PatchAnswerOutlivesPod", "the answer to a patch of a pod is kept for ever when the pod is bound or deleted before it",
		[]killer{{binding, "TestAPatchAnswerIsKeptWithoutACopyOfThePod"}}, "nothing but memory is lost"},
	{"ChangedPodBound", "a pod that changed after the decision is bound",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"AnnotationEndsBinding", "a pod that a plugin annotates at PreBind is not bound when the informer lags",
		[]killer{{binding, "TestBindOutcomes"}}, "no plugin of it annotates a pod"},
	{"LateBindingLeftOpen", "a pod is scheduled again while a Binding of it may still arrive",
		[]killer{{binding, "TestALostBindingCannotTakeEffectLater"}}, ""},
	{"RefusedClosingCounts", "a Binding counts as invalidated although the write that invalidates it was refused",
		[]killer{{binding, "TestALostBindingCannotTakeEffectLater"}}, ""},
	{"StatusBehindAFenceWaits", "a status that comes while a new leader fences the pod waits for the next status",
		[]killer{{binding, "TestStatus"}}, "each pod that it marks is tried soon, which is other news"},
	{"UnansweredPatchForgotten", "a status is not written since the patch before it, which took effect, had no answer",
		[]killer{{binding, "TestStatus"}}, "its informers deliver what the patch wrote before the next status"},
	{"PatchedDuringBind", "a status write that failed is repeated while the pod is bound",
		[]killer{{binding, "TestStatus"}}, "the version that each patch carries keeps it harmless"},
	{"BindWithoutUID", "a Binding does not carry the pod's UID",
		[]killer{{defaultbinder, "TestBind"}}, "the version that each Binding carries tells the pods apart, too"},
	{"BindWithoutVersion", "a Binding does not carry the pod's resource version",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"ExtenderBindNotVerified", "that an extender bound a pod is not verified",
		[]killer{{binding, "TestAnExtendersBindIsVerified"}}, noExtenders},

	{"BudgetDisregarded", "a victim that a PodDisruptionBudget protects counts as any other",
		[]killer{{preemption, "TestVictimSelection"}}, "its clusters have no budgets"},
	{"VictimsChosenAgain", "a pod whose victims are still terminating chooses others",
		[]killer{{preemption, "TestPreemptionErrors"}, {loop, "TestAPodWaitsForVictimsThatTerminateSlowly"}}, noHaste},
	{"ScheduledWhileEvicting", "a pod is scheduled while its victims are being evicted",
		[]killer{{loop, "TestAPodIsGatedWhileItsVictimsAreBeingEvicted"}, {binding, "TestEvictingEndsWhenTheLastVictimLeaves"}}, noHaste},
	{"VictimEvictedTwice", "a victim is evicted once for each preemptor that chose it",
		[]killer{{binding, "TestAVictimIsEvictedOnce"}}, ""},
	{"SharedVictimNotAwaited", "a preemptor is scheduled while another one's eviction of their victim is pending",
		[]killer{{binding, "TestAPreemptorWaitsWhileAnotherPlanEvictsItsVictim"}}, rare},
	{"MovedVictimForgotten", "a victim is evicted again when another scheduler bound it elsewhere",
		[]killer{{binding, "TestAVictimThatAnotherSchedulerBindsIsNotEvictedAgain"}}, rare},
	{"VictimWithoutCondition", "a victim is deleted without the DisruptionTarget condition",
		[]killer{{loop, "TestAPodGetsTheResourcesOfItsVictims"}}, ""},
	{"VictimDeletedByName", "a victim is deleted by name, without its UID",
		[]killer{{loop, "TestEvictionErrors"}}, rare},
	{"VictimInBindingDeleted", "a victim that could be stopped at Permit or PreBind is deleted",
		[]killer{{loop, "TestAVictimInItsBindingCycleGoesBackToTheQueue"}}, "to delete it breaks no promise that it knows"},
	{"LowerNominationKept", "a pod of lower priority keeps its nomination to the preemptor's node",
		[]killer{{loop, "TestALesserPodLosesItsNomination"}}, noHaste},
	{"EvictionEndsWithTheCycle", "evictions end with the scheduling cycle that chose the victims",
		[]killer{{loop, "TestAPodOfAProfileWithOutOfTreePluginsGetsTheResourcesOfItsVictims"}}, ""},
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
	{"DeletedProfilesUnfenced", "a new leader fences no pods of profiles that were deleted before the handover",
		[]killer{{operator, "TestProfilesThatANewLeaderFences"}}, "its leaders ask for profiles in a way of its own"},
	{"TrialLeftOpen", "plugins that were built for a trial are not closed",
		[]killer{{profile, "TestTrialOutcomes"}, {profile, "TestAThousandTrialsLeaveNothingBehind"}}, noTrial},
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
		[]killer{{"scheduler/volumes", "TestReadsReturnAssumedObjects"}, {loop, "TestAReleasedVolumeWakesPodsThatWantIt"}}, noVolumes},
	{"VolumesByGeneration", "each Generation has assumed volumes of its own",
		[]killer{{loop, "TestASwapKeepsAssumedVolumes"}}, noVolumes},
	{"InitialAttemptTimestampMissing", "a trial sorts pods without an initial attempt timestamp",
		[]killer{{queue, "TestNewQueuedEntityHasAnInitialAttemptTimestamp"}}, noTrial},
	{"QueueSortNotTried", "a trial does not evaluate the QueueSort plugin",
		[]killer{{sandbox, "TestQueueSortIsEvaluated"}}, noTrial},
	{"SandboxKeepsDeleted", "a reused sandbox keeps what was deleted",
		[]killer{{sandbox, "TestAReusedSandboxIsLikeANewOne"}}, noTrial},
	{"RunningPodKeepsResources", "a trial of a running pod counts the pod's own resources as taken",
		[]killer{{sandbox, "TestPodsThatTakeResourcesInTheSandbox"}}, noTrial},
	{"TrialRejectsOldFailures", "a failure that the previous Blueprint has as well rejects the new one",
		[]killer{{profile, "TestCompare"}, {profile, "TestTrialOutcomes"}}, noTrial},
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
	{"ExtenderLeftOpen", "the connections to an extender stay open after its client is closed",
		[]killer{{extender, "TestCloseClosesIdleConnections"}}, noExtenders},
	{"FirstAddressTakesAll", "the first address of an extender may take the whole time of a request",
		[]killer{{extender, "TestAddressesAreDialledInTurn"}}, noExtenders},
	{"ScopedIndexBehind", "a plugin's index has a change only after the next read",
		[]killer{{scopedinformers, "TestAnIndexIsNeverBehindAnEvent"}, {volumelimits, "TestFilterSeesTheAttachmentWhoseEventRequeuedThePod"}}, noVolumes},
	{"RelistLeavesDeleted", "a plugin's index keeps objects that a relist did not return",
		[]killer{{scopedinformers, "TestAnIndexHasNothingThatARelistDidNotFind"}, {scopedinformers, "TestAnIndexIsExactAfterAWatchThatBroke"}}, noVolumes},
	{"PodComparedByName", "a pod that waits for its volumes is compared by name, not by UID",
		[]killer{{volumebinding, "TestPreBind"}}, noVolumes},
	{"LossNotReported", "what is lost in the conversion of a configuration is not reported",
		[]killer{{convert, "TestFromKubeScheduler"}}, noFiles},
	{"DefaultPluginsLeftEnabled", "an exported configuration does not disable the default plugins that the profile does without",
		[]killer{{convert, "TestToKubeScheduler"}}, noFiles},
	{"OneConfigurationForAll", "profiles are exported into one configuration although they need different ones",
		[]killer{{convert, "TestToKubeScheduler"}}, noFiles},
	{"RestartsBetweenSeconds", "record assumes that no manager started within a second in which nodes were created",
		[]killer{{record, "TestTheOrderOfNodesIsInferred"}}, noFiles},
	{"ReserveSkipped", "the sandbox does not run Reserve, so that the next pod finds the same volumes and devices free",
		[]killer{{"cmd/kubectl-berth/try", "TestTry"}}, noVolumes},
	{"ForeignConfigMapOverwritten", "a ConfigMap that is not Berth's is overwritten by an export",
		[]killer{{export, "TestSyncDoesNotTouchConfigMapsOfOthers"}}, noUsers},
	{"ExportNotDeleted", "an exported ConfigMap stays when the profile does not ask for it any more",
		[]killer{{export, "TestSyncDeletesConfigMapsThatAreNoLongerNamed"}}, noUsers},
	{"ExportLossNotReported", "what an export cannot express is not reported",
		[]killer{{export, "TestSyncReportsWhatCannotBeExpressed"}}, noUsers},
	{"PutWhileWritingLost", "an explanation that is put while the pod's last one is being written counts as written",
		[]killer{{explain, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"UpdatedAtOnce", "explanations of a pod are written without a minimum interval",
		[]killer{{explain, "TestQueue"}, {explain, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"DeletionsFirst", "explanations of deleted pods are deleted before explanations of pending pods are updated",
		[]killer{{explain, "TestQueue"}}, noWhy},
	{"BoundPodStaysExplained", "a pod's explanation stays for a minute after it was bound",
		[]killer{{explain, "TestQueue"}, {explainer, "TestObjectsOfBoundPodsAreDeletedWithinSecondsAtTwentyBindsASecond"}}, noWhy},
	{"OutdatedYields", "the deletion of a bound pod's explanation yields to binds",
		[]killer{{explainer, "TestObjectsOfBoundPodsAreDeletedWithinSecondsAtTwentyBindsASecond"}}, noWhy},
	{"ExistingReasonsUnknown", "an explanation from before a restart is written again although it is unchanged",
		[]killer{{explain, "TestQueue"}, {explainer, "TestAnUnchangedExplanationKeepsItsLastChangeOverARestart"}}, noWhy},

	{"RetriedEventDropped", "an Event that is being retried is lost when the process ends",
		[]killer{{recorder, "TestCloseWritesTheEventThatAWriterRetries"}}, noEvents},
	{"EventsYieldForEver", "after a burst of binds only two writers write its Events",
		[]killer{{recorder, "TestAllWritersRunOnceBindsHaveEnded"}}, noEvents},

	{"HandoverWithoutInformers", "a new leader schedules before its informers have what earlier leaders wrote",
		[]killer{{loop, "TestANewLeaderWaitsForWhatItHasNotSeen"}}, noLeaders},
	{"PodsNotFenced", "a Binding of an earlier leader binds a pod after the new leader has begun to schedule",
		[]killer{{loop, "TestALateBindingOfAnEarlierLeaderFails"}}, ""},
	{"JournalCommitSkipped", "a Binding of a pod that was rejected before is sent without its commit in the journal",
		[]killer{{journal, "TestALateWriteOfAnEarlierLeaderFails"}, {journal, "TestWhatANewLeaderFences"}}, ""},
	{"JournalIgnored", "a new leader does not fence the pods of the journal",
		[]killer{{journal, "TestWhatANewLeaderFences"}, {loop, "TestWhichPodsANewLeaderFences"}}, ""},
	{"IncompleteHandoverCounts", "a leadership that ends before all pods were fenced tells the next leader that they are",
		[]killer{{loop, "TestAHandoverThatIsCutShortIsNotComplete"}}, "its leaders die, and do not end, while they take over"},
	{"ForbiddenJournalSpins", "a journal that may not be read is read without a pause",
		[]killer{{journal, "TestReadsOfAForbiddenJournalAreLimited"}}, noRefusal},
	{"ReleasedCommitUnanswered", "a commit does not end when its pod is deleted meanwhile",
		[]killer{{journal, "TestACommitEndsWhenItsPodIsForgotten"}}, "the commit times out after fifteen seconds, and the pod is tried again"},
	{"InheritedPodReleased", "a pod that could not be fenced leaves the journal with a Binding of another leader",
		[]killer{{journal, "TestAPodThatCouldNotBeFencedStaysUntilItIsGone"}}, "a pod that it tries in vain to fence is fenced, or bound, in the end"},
	{"UnansweredTakeOverWaits", "a leader whose first write of the journal had no answer, and whose next ones are refused, never begins",
		[]killer{{journal, "TestTakeOverWhileAWriteMayStillArrive"}}, noRefusal},
	{"UnansweredTakeOverForgotten", "Bindings are sent without a commit although a write of the journal may still arrive",
		[]killer{{journal, "TestTakeOverWhileAWriteMayStillArrive"}}, noRefusal},
	{"EveryPodFenced", "a new leader fences every pending pod",
		[]killer{{loop, "TestWhichPodsANewLeaderFences"}}, "it costs time, and is safe"},
	{"WritesAfterExpiry", "a leader that could not renew its Lease in time keeps writing",
		[]killer{{leadership, "TestWhenAWriteIsSent"}}, noLeaders},
	{"OtherHolderUnnoticed", "a leader that reads another holder in its Lease keeps writing until its own time is over",
		[]killer{{leadership, "TestWhenAWriteIsSent"}}, noLeaders},
	{"SuccessorReleased", "a leader that wakes up too late releases the Lease of its successor",
		[]killer{{leadership, "TestTheLeaseOfASuccessorIsNotReleased"}}, noLeaders},

	{"LeaseTimesTrusted", "whether another scheduler's Lease expired depends on that scheduler's clock",
		[]killer{{controllers, "TestDefaultSchedulerIsNotServedBesideAnotherScheduler"}}, noUsers},
	{"RejectedSpecOverwrites", "a profile whose new spec is rejected stops running",
		[]killer{{controllers, "TestStatusProgrammedDescribesWhatRuns"}}, noUsers},
	{"ObservedGenerationMissing", "a status has no observedGeneration",
		[]killer{{controllers, "TestStatusProgrammedDescribesWhatRuns"}}, noUsers},
	{"SwapBeforePause", "a profile that is paused is swapped before it is paused",
		[]killer{{controllers, "TestAPauseComesBeforeTheSwapAndItsEndAfterIt"}}, noUsers},
	{"TrialIgnored", "a profile that failed its trial runs",
		[]killer{{controllers, "TestAFailedTrialChangesNothingAndIsReported"}}, noUsers},
	{"TrialApproves", "a revision that crashed during its trial runs without approval",
		[]killer{{controllers, "TestACrashDuringATrialIsRecorded"}}, noUsers},
	{"AnyDeathBlames", "two ends of leading processes within ten minutes, whatever the cause, blame every revision on probation",
		[]killer{{controllers, "TestKillsBlameNoProfile"}}, noUsers},
	{"BuildDeathsIgnored", "processes that ended during the build of a revision do not blame it",
		[]killer{{controllers, "TestASpecThatCrashesDuringItsBuildIsReplaced"}}, noUsers},
	{"RebuiltAtOnce", "a blamed revision that nothing can replace is built again without backoff",
		[]killer{{controllers, "TestABlamedRevisionThatNothingReplacesIsBuiltLast"}}, noUsers},
	{"RetryIgnored", "berth.dev/retry does not clear the evidence against a revision",
		[]killer{{controllers, "TestASpecThatCrashesDuringItsBuildIsReplaced"}}, noUsers},
	{"SecondsReplaceMinutes", "a revision that ran for seconds replaces a crashed one before others that served for minutes",
		[]killer{{controllers, "TestARevisionThatRanForSecondsIsNotPreferredAsReplacement"}}, noUsers},
	{"CrashStackIgnored", "that a plugin was on the stack of a crash is not recorded on revisions",
		[]killer{{controllers, "TestACrashStackBlamesTheRevisionsThatRunItsPlugin"}}, noUsers},
	{"ProvedByOneName", "a hash that another profile proved is on probation",
		[]killer{{controllers, "TestAHashThatAnotherProfileProvedIsProved"}}, noUsers},
	{"NotRunningNotHeld", "the pods of a profile that does not run are not held",
		[]killer{{controllers, "TestThePodsOfAProfileThatDoesNotRunAreHeld"}}, noUsers},
	{"CallersBlamed", "a built-in plugin that called a plugin which crashed is blamed as well",
		[]killer{{crashreport, "TestPluginsOnTheStack"}}, noUsers},
	{"OldCrashesOutliveRetry", "a crash from before berth.dev/retry, recorded after it, counts",
		[]killer{{controllers, "TestARetryIsNotUndoneByAnOlderCrash"}}, noUsers},
	{"ConflictsUndoRetry", "berth.dev/retry clears nothing when another process wrote to the revision",
		[]killer{{controllers, "TestARetrySurvivesAConflict"}}, noUsers},
	{"CrashRecordNotAwaited", "profiles run as soon as a crash could not be recorded",
		[]killer{{controllers, "TestProfilesWaitTenSecondsForACrashThatCannotBeRecorded"}, {controllers, "TestACrashStackBlamesTheRevisionsThatRunItsPlugin"}}, noUsers},
	{"AppliedApart", "a profile and its PluginConfigs that are applied together become two revisions",
		[]killer{{controllers, "TestObjectsAppliedTogetherBecomeOneRevision"}}, noUsers},

	{"BindingMonitorLocked", "a lock is held while a late call in a binding cycle is reported",
		[]killer{{loop, "TestAPodIsBoundWhileItsAbandonedCallIsReported"}}, noWaits},
	{"LedgerEntryReopened", "a decision about a pod of a deleted profile creates the profile's entry in the ledger again",
		[]killer{{decision, "TestTheLedgerKeepsNothingOfAClosedProfile"}}, noLeaks},
	{"EarlierHoldsForgotten", "pods that an earlier process held for a profile that is deleted now are not held",
		[]killer{{unserved, "TestPodsThatAnEarlierProcessHeldAreHeldWhenTheirProfileIsDeleted"}}, noUsers},
	{"CountsStartAtZero", "a new leader publishes counts that start at zero",
		[]killer{{controllers, "TestANewLeaderContinuesThePublishedCounts"}}, noUsers},
	{"QueueStateOutlivesProfile", "the queue keeps its state of a deleted profile that has no pods left",
		[]killer{{queue, "TestADeletedProfileLeavesNothingInTheQueue"}}, noLeaks},
	{"OldGenerationKeepsCache", "a Generation that was replaced keeps its equivalence cache until it is closed",
		[]killer{{loop, "TestAReplacedGenerationReleasesItsEquivalenceCache"}}, noLeaks},

	{"NewestForOldest", "the metric of the oldest pending pod is about the newest",
		[]killer{{queue, "TestMetricsCollector"}}, noMetrics},
	{"PluginsNotMeasured", "the duration of plugins is not measured in any attempt",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"EventHandlingNotMeasured", "the duration of event handling is not measured",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"UnschedulableSpanLeftOpen", "the span of an attempt that finds no node is never ended",
		[]killer{{loop, "TestAnAttemptIsATrace"}}, noTraces},
	{"RequestsNotTraced", "requests to the API server do not carry the attempt's trace context",
		[]killer{{operator, "TestRequestsOfATracedAttemptCarryItsContext"}}, noTraces},
	{"WatchesNotRetried", "a watch fails while the API server is away, and is left to back off",
		[]killer{{operator, "TestWatchesWaitForAnUnreachableAPIServer"}}, "its API server is always there"},
	{"ControllersStartWhileStopping", "controllers are added to a manager that stops, which may wait for them for ever",
		[]killer{{operator, "TestNoControllersStartInAManagerThatStops"}}, "it has no controller-runtime"},
	{"MetricsWithoutAuthorization", "metrics are served without authentication",
		[]killer{{operator, "TestTheFlagsDecideWhoMayReadMetrics"}}, noMetrics},
	{"LastDecisionsLost", "decisions shortly before the end of the process are not published",
		[]killer{{controllers, "TestTheLastDecisionsArePublishedAtShutdown"}}, noUsers},
	{"OneVersionDecoded", "revisions that were stored under another API version are not read",
		[]killer{{controllers, "TestARevisionStoredUnderAnotherAPIVersionIsRead"}}, noUsers},
	{"LargeRevisionsNotStored", "a revision of more than 64 KiB is kept in memory only",
		[]killer{{controllers, "TestARevisionOfAlmostAMebibyteIsStored"}}, noUsers},
	{"ProbesNamePods", "a failed liveness probe names the pod in the loop and its profile",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
	{"ProbesNameProfiles", "a failed readiness probe names the profiles that would be rejected",
		[]killer{{controllers, "TestAReplicaIsReadyUnlessItWouldRefuseWhatRuns"}}, noUsers},
}
