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
	intake            = "scheduler/eventhandlers"
	loop              = "scheduler"
	cache             = "scheduler/cache"
	cycle             = "scheduler/cycle"
	binding           = "scheduler/binding"
	binder            = "scheduler/plugins/defaultbinder"
	preemption        = "scheduler/preemption"
	defaultpreemption = "scheduler/plugins/defaultpreemption"
	serviceaffinity   = "scheduler/plugins/serviceaffinity"
	profile           = "scheduler/profile"
	sandbox           = "scheduler/sandbox"
	decided           = "scheduler/decision"
	explained         = "scheduler/explain"
	extender          = "scheduler/extender"
	scopes            = "scheduler/scopedinformers"
	volumelimits      = "scheduler/plugins/nodevolumelimits"
	volumebinding     = "scheduler/plugins/volumebinding"
	convert           = "cmd/kubectl-berth/convert"
	export            = "controllers/export"
	tenure            = "scheduler/leadership"
	journal           = "scheduler/journal"
	recorder          = "scheduler/recorder"
	inspect           = "scheduler/debug"
	controllers       = "controllers"
	unserved          = "scheduler/unserved"
	crashreport       = "controllers/crashreport"
	operator          = "operator"
	why               = "test/exactness/explanations"
	explainer         = "controllers/explainer"
	compiling         = "scheduler/compile"
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
var table = []mutant{
	{"EventInFlightDropped", "events that happen between pop and requeue are not kept",
		[]killer{{queue, "TestTransitions"}, {loop, "TestARefusalReachesPodStatusLedgerAndQueue"}}, ""},
	{"HintAlwaysSkips", "every queueing hint is taken for Skip",
		[]killer{{queue, "TestEvaluateHints"}}, ""},
	{"HeapNotRebuilt", "a new sort takes over a heap that another one ordered",
		[]killer{{queue, "TestSwaps"}, {loop, "TestASwapToAnotherSortPluginReordersThePodsThatWait"}}, ""},
	{"LessOfClosedGeneration", "a heap keeps asking the sort of a generation that was replaced",
		[]killer{{queue, "TestSubQueuesAreRemovedWithTheirProfiles"}}, ""},
	{"LanesTakeNoTurns", "one heap is always looked into first",
		[]killer{{queue, "TestSubQueuesOfSeveralProfiles"}}, noOrder},
	{"PoppedFromABatch", "a pod is popped while others that the same event woke are still being put down",
		[]killer{{queue, "TestNothingIsPoppedBeforeAllWokenPodsAreRequeued"}}, noOrder},
	{"WakesItself", "an event that is not meant for a pod in flight reaches it",
		[]killer{{queue, "TestTheFilterOfAnEventAppliesToPodsInFlight"}}, noHaste},
	{"OlderVersionTaken", "a pod in the queue becomes older than it was",
		[]killer{{queue, "TestAnOlderVersionOfAPodIsIgnored"}}, "what was decided about an older version is not bound, and tried again"},
	{"HeldToldForEver", "a parked pod is told that it is held although it knows",
		[]killer{{queue, "TestTransitions"}}, "to write what is written is no write"},
	{"OpenGateUnnoticed", "a pod whose gate opened without waking it stays gated",
		[]killer{{queue, "TestAPodWhoseGateOpenedIsRequeued"}}, rare},
	{"BackoffEndsWithASwap", "a swap lets pods go that back off",
		[]killer{{queue, "TestSwaps"}}, noHaste},
	{"TouchedPodSleeps", "a pod whose rejecting plugin changed is not tried again",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}, {loop, "TestWhichPodsAChangeRequeues"}}, ""},
	{"ChosenNodeForgotten", "that another node may be chosen now is nothing to a pod that was refused on its node",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}, {loop, "TestWhichPodsAChangeRequeues"}}, rare},
	{"WalksShareTheirPlace", "of two walks through a profile's pods each passes over pods that the other looked at",
		[]killer{{queue, "TestTwoIterationsOverOneProfileSkipNoPod"}, {queue, "TestAnIterationVisitsEachRemainingPodOnce"}}, "the simulation lets one walk go on at a time"},
	{"SliceTooLarge", "a swap goes through many more pods under one hold of the lock",
		[]killer{{queue, "TestASliceOfAProfileChangeIsBounded"}}, noHaste},
	{"SwapUnheardOnTheWay", "a pod that is on its way to its place does not hear of a swap",
		[]killer{{queue, "TestSwaps"}, {queue, "TestTheQueueAgreesWithTheModel"}, {loop, everyCell}}, ""},
	{"AdmittedUnasked", "a pod that is popped before a swap came to it counts as let in by the new gates",
		[]killer{{queue, "TestTheQueueAgreesWithTheModel"}}, rare},
	{"ToldAsBefore", "a swap that has more told of pods that wait, or less, changes nothing about those that do",
		[]killer{{loop, "TestAChangeOfExplainReachesThePodsThatWait"}, {loop, "TestWhichPodsAChangeRequeues"}}, noWhy},
	{"InTheWayForgotten", "a plugin that is in the way of making room may go, and the pod is not tried again",
		[]killer{{loop, "TestARejectorThatRemainsAfterPreemptionCounts"}}, rare},

	{"PoisonUncounted", "that plugins panic at a pod is forgotten with each attempt",
		[]killer{{queue, "TestQuarantine"}, {loop, "TestAPodAtWhichAPluginPanicsIsQuarantined"}}, noPoison},
	{"NeverSetAside", "a pod at which plugins panic again and again is tried like any other",
		[]killer{{queue, "TestQuarantine"}, {loop, "TestAPodAtWhichAPluginPanicsIsQuarantined"}}, noPoison},
	{"SlowPreferred", "a profile whose attempts take long has its turn like any other",
		[]killer{{queue, "TestASlowProfileIsThrottledWhileOthersWait"}}, noHaste},

	{"ComesBackAsItWas", "a pod that changed while it was bound is tried again as it was",
		[]killer{{intake, "TestHistories"}, {loop, "TestAPodThatChangesWhileItIsBoundIsRetriedAtItsNewVersion"}}, ""},
	{"PromiseOutlivesProfile", "a nomination that ends while its profile is gone is kept",
		[]killer{{intake, "TestHistories"}}, rare},
	{"NowhereDeleted", "the deletion of an assumed pod does not say where it was",
		[]killer{{intake, "TestHistories"}}, rare},
	{"DeletedWaitsOn", "a pod that is deleted goes on waiting at Permit",
		[]killer{{intake, "TestHistories"}, {loop, "TestAPodThatIsDeletedBeforePermitDoesNotWaitThere"}, {loop, "TestAPodThatIsDeletedLeavesNothingBehind"}}, ""},

	{"SilentPromiseEnds", "the end of a promise that only memory knew is told to nobody",
		[]killer{{intake, "TestNodeOfFreedResources"}, {loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"NewGatePassed", "a pod that an older generation let in is not asked about again",
		[]killer{{loop, "TestNoPodPassesAGateThatASwapBrings"}}, "nothing comes between pop and acquire there"},
	{"PlacedPodTried", "a pod that has a node is tried",
		[]killer{{loop, "TestAPodThatGotANodeAfterItWasPoppedIsNotTried"}}, "such an attempt fails and nobody is told"},
	{"FreedRoomUntold", "nobody hears of the room that a failed binding leaves",
		[]killer{{loop, "TestFreedResourcesWakeOtherPodsButNotTheOneThatReleasedThem"}}, ""},
	{"AdoptedUnseen", "a profile adopts pods that went while they were listed",
		[]killer{{loop, "TestAPodThatIsDeletedWhileItIsAdoptedIsNotKept"}}, rare},
	{"PromisesAdoptedInTurn", "a pod is tried before the promises are known to those that are adopted with it",
		[]killer{{loop, "TestPodsThatAreAdoptedHonourEachOthersNominations"}}, rare},
	{"PromiseAdopted", "a promise that ends while its pod is adopted is kept",
		[]killer{{loop, "TestANominationThatEndsWhileItsPodIsAdoptedIsNotKept"}}, rare},
	{"UntoldPromiseForgotten", "a pod that keeps its promise loses it where its status does not hold it yet",
		[]killer{{loop, "TestANominationIsKeptThoughTheStatusLacksIt"}}, rare},
	{"GoneStaysAssumed", "a pod that was bound by somebody else, and gone, before it was assumed counts for ever",
		[]killer{{loop, "TestAPodBoundElsewhereAndDeletedBeforeItWasAssumedLeavesNothing"}}, rare},
	{"BoundForgotten", "a pod that the queue has forgotten is taken for gone, and its room for free",
		[]killer{{loop, "TestABoundPodThatTheQueueForgotKeepsItsResources"}}, rare},
	{"LeaverAsked", "a heap that everybody leaves asks the sort of who left first",
		[]killer{{queue, "TestLessOfAClosedProfileIsNotCalled"}}, rare},
	{"DoomedPromised", "room stays promised to a pod that is being deleted",
		[]killer{{intake, "TestNodeOfFreedResources"}, {cache, "TestATerminatingPodIsNotNominated"}}, rare},
	{"PromiseEndsByStatus", "that a promise ends is left to the status, which may not be written",
		[]killer{{loop, "TestTheEndOfANominationWakesOtherPods"}}, rare},
	{"OldLeaderRefuses", "the end of a leadership is written as a verdict",
		[]killer{{loop, "TestTheEndOfALeadershipIsNoSchedulingFailure"}}, "its processes are killed, and never step down"},
	{"TenantsReadAll", "explanations name nodes and pods of other namespaces",
		[]killer{{loop, "TestAnExplanationNamesNoOtherTenantsObject"}}, noWhy},
	{"TaintsWakeUntold", "explanations do not say that other taints of a node wake a pod",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"UnsaidForGood", "a pod whose explanation was taken back is not explained again",
		[]killer{{explained, "TestQueue"}, {explained, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"GoneExplained", "a pod that goes while it is explained stays explained",
		[]killer{{loop, "TestAPodThatIsDeletedIsExplainedNoMore"}}, noWhy},
	{"LateShown", "a plugin that was left behind sees the nodes move",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, noPoison},
	{"LateLooksOn", "a plugin that was left behind sees the nodes move of which it asks its Handle",
		[]killer{{cache, "TestPinnedSnapshotDoesNotChangeForAbandonedCalls"}, {loop, "TestALatePluginMayListNodes"}}, noPoison},
	{"HungLoopLives", "a loop that hangs is said to be alive",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
	{"SlowCallsAddUp", "a plugin of which each call comes back is taken for one that hangs",
		[]killer{{loop, "TestASlowPluginDoesNotFailTheLivenessCheck"}}, noEnd},
	{"BindsEndWithTheLoop", "bindings under way end when the process is asked to end",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"WaitersHoldUpTheEnd", "pods that wait at Permit keep the process from ending",
		[]killer{{loop, "TestShutdownFinishesOrUndoesBindings"}}, noEnd},
	{"LagIsADifference", "what a watch has not told yet is told as a difference",
		[]killer{{inspect, "TestATransientDifferenceIsIgnored"}}, noLooks},

	{"AssumedTwice", "a pod is assumed without a look whether its UID has a node",
		[]killer{{cache, "TestCacheEqualsTheReferenceModel"}, {binding, "TestBeginRejectsAnAssumedPod"}}, ""},
	{"ConfirmedTwice", "a pod that was assumed counts twice once it is confirmed",
		[]killer{{cache, "TestCache"}}, ""},
	{"NominatedBesides", "a pod that has a node is nominated besides",
		[]killer{{cache, "TestAnAssignedPodIsNotNominated"}}, "nothing comes between putting a pod down and nominating it there"},

	{"RotationNotAdvanced", "every walk over the nodes starts at the same one",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"KForKPlusOne", "the walk ends with the last node that it needs, not with one that it does not",
		[]killer{{cycle, "TestAWalkStartsWhereTheLastOneEnded"}}, noOrder},
	{"FirstOfATie", "the first of equal nodes wins",
		[]killer{{cycle, "TestSelectHostEqualsTheRootOfAHeap"}}, noOrder},
	{"VerdictOutlivesNode", "what is remembered of a node outlives a change to it",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it recomputes what is chosen, and then goes the plain way"},
	{"StrangerUnheard", "an opaque plugin is not asked about a node beside what is remembered",
		[]killer{{cycle, "TestTheCacheEqualsTheReference"}}, "it knows no such plugin"},
	{"LabelsReadBesideTheLoop", "a profile that is built adds to the labels that the loop reads",
		[]killer{{cycle, "TestNewEquivalenceCacheDoesNotChangeTheSnapshotsLabels"}}, "one thing happens at a time there"},
	{"NumbersNeverEvicted", "the numbers within a counted set of pods are never dropped",
		[]killer{{cache, "TestRetainedCountsAreBounded"}}, "a bound changes no decision"},
	{"TopologiesNeverReclaimed", "a topology key keeps its place for the life of the process",
		[]killer{{cache, "TestAnUnusedTopologyKeyIsEvicted"}}, "a bound changes no decision"},
	{"AbsentTopologiesTakePlaces", "a topology key that no node carries takes the place of one that nodes carry",
		[]killer{{cache, "TestKeysThatNoNodeCarriesEvictNoOthers"}}, "a bound changes no decision"},
	{"NominatedSiblingNowhere", "ServiceAffinity looks for a nominated pod on the node that its spec names",
		[]killer{{serviceaffinity, "TestFilterFollowsAPodThatIsNominated"}}, "no profile of its runs the plugin"},
	{"LastPodUnchecked", "a pod that is tried twice in a row is of the same class the second time, whatever selectors name by then",
		[]killer{{cycle, "TestThePodOfTheLastAttemptIsClassifiedAgain"}}, rare},
	{"BudgetPerProfile", "each equivalence cache has a budget for itself",
		[]killer{{cycle, "TestProfilesStayWithinOneBudget"}}, "a bound changes no decision"},
	{"EvictedClassUsed", "a class that gave way to others is used when its pod is tried again",
		[]killer{{cycle, "TestAnEvictedClassIsNotUsedAgain"}}, "a bound changes no decision"},
	{"NearestOutlivesSnapshot", "what was nearest to a pod's class is so for ever",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"ExcludedNodesNear", "a node that the pod's selector excludes is called close as soon as it has room",
		[]killer{{loop, "TestTheClosestNodesAreThoseThatWaitingMayOpen"}}, noWhy},
	{"LinesTwice", "an explanation says the same twice",
		[]killer{{cycle, "TestRejections"}, {explainer, "TestClosestNodesThatReadAlikeAreOneEntry"}}, noWhy},
	{"FarGuesses", "a name is guessed that has little in common with the one that was given",
		[]killer{{compiling, "TestSuggest"}}, noUsers},
	{"OneArgumentError", "of a plugin's arguments the first kind of error is reported alone",
		[]killer{{compiling, "TestEveryArgumentErrorIsReported"}}, noUsers},
	{"ErrorByEveryCondition", "each condition that an error makes False reports the error as an Event of its own",
		[]killer{{controllers, "TestAnErrorIsOneEvent"}}, noUsers},
	{"NodesUnordered", "nodes that are there at the start are tried in the order of client-go's map",
		[]killer{{intake, "TestInitialNodesAreAddedByName"}}, "it has no informers"},
	{"AnnotationNamesNodes", "under detail: Reasons the annotation names nodes beside the pod's own",
		[]killer{{decided, "TestAnnotationDetail"}, {explainer, "TestDetailDecidesWhetherNodesAreCounted"}}, "nobody reads its annotations"},
	{"ExtenderRefusalsResolvable", "a refusal by an extender that nothing resolves is taken for one that victims resolve",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"ExtenderIgnoredFails", "an extender that may be ignored fails the pod's attempt",
		[]killer{{cycle, "TestExtendersFilterAndScoreAfterPlugins"}}, noExtenders},
	{"ExtendersRemembered", "a pod goes the way of what is remembered although an extender is to be asked",
		[]killer{{cycle, "TestExtenderResultsAreNotCached"}}, noExtenders},

	{"LastVictimUnheard", "a preemptor that was refused for one victim's sake is not woken by the last one",
		[]killer{{defaultpreemption, "TestDeletionOfALowerPriorityPodRequeuesThePreemptor"}}, rare},

	{"KeyForgetsTolerations", "pods with other tolerations are of one class",
		[]killer{{cycle, "FuzzClassKeys"}, {cycle, "TestTheCacheEqualsTheReference"}}, "its pods tolerate nothing"},

	{"PanicPasses", "a plugin's panic is not recovered",
		[]killer{{loop, "TestEveryAnswerAtEveryPoint"}, {binding, "TestOrderOfThePluginCalls"}}, ""},
	{"UnreserveInOrder", "claims are taken back in the order in which they were made",
		[]killer{{binding, "TestOrderOfThePluginCalls"}, {loop, "TestEveryAnswerAtEveryPoint"}}, ""},
	{"TrialMeasured", "what plugins do on trial counts as if it were for real",
		[]killer{{profile, "TestATrialLeavesNoMetricSeries"}}, noTrial},
	{"LateBelieved", "an attempt that was left behind goes on when its plugin comes back",
		[]killer{{loop, "TestALateResultIsDiscarded"}}, ""},
	{"FirstMissingAlone", "of what keeps a pod from a node only what the first plugin says is told",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},
	{"PromisesNotMissing", "room that is promised to others is taken for free where a node is called near",
		[]killer{{why, "TestClosestNodesNameAllThatIsMissing"}}, noWhy},

	{"ForgetSkipped", "a pod stays assumed after its binding failed",
		[]killer{{binding, "TestOrderOfThePluginCalls"}, {binding, "TestBindOutcomes"}, {loop, "TestEveryAnswerAtEveryPoint"}}, ""},
	{"ForgottenFirst", "a pod is forgotten before its claims are taken back",
		[]killer{{binding, "TestThePodStaysAssumedUntilUnreserve"}}, ""},
	{"WaitingUnreserveForgotten", "the claims of a pod that was refused while it waited at Permit are not taken back",
		[]killer{{binding, "TestWaitingOnPermit"}}, ""},
	{"WaitsAfterUndo", "a pod whose binding was undone still waits at Permit",
		[]killer{{binding, "TestAFailedPreflightLeavesNoPodWaiting"}}, ""},
	{"DeafAtPermit", "events are not kept for a pod that waits at Permit",
		[]killer{{binding, "TestWaitingOnPermit"}}, ""},
	{"NominationOutlivesAssume", "an assumed pod is still nominated",
		[]killer{{binding, "TestOrderOfThePluginCalls"}}, ""},
	{"ConflictIsFailure", "a conflict is taken for a failure",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"UnknownIsFailure", "an answer that does not say whether the write counted is taken for a failure",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"FormsCompared", "every pod with a command or a probe has changed when it is read from the API server",
		[]killer{{binding, "TestATrimmedPodIsNotSeenAsChanged"}}, ""},
	{"ViewOutlivesPod", "what a patch of a pod told is kept for ever where the pod is bound or gone before the answer",
		[]killer{{binding, "TestAPatchAnswerIsKeptWithoutACopyOfThePod"}}, "nothing but memory is lost"},
	{"ChangedPodBound", "a pod that is not what was decided about any more is bound",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"AnnotationEndsBinding", "a pod that a plugin annotates at PreBind is not bound when the informer lags",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"LateBindingLeftOpen", "a pod goes elsewhere while a Binding of it is on its way",
		[]killer{{binding, "TestALostBindingCannotTakeEffectLater"}}, ""},
	{"ClosingBelieved", "a Binding counts as closed although the write that closes it was refused",
		[]killer{{binding, "TestALostBindingCannotTakeEffectLater"}}, ""},
	{"NewsBehindAMarkWaits", "news of a pod that comes while a new leader marks it is not sent before there is other news",
		[]killer{{binding, "TestStatus"}}, "each pod that it marks is tried soon, which is other news"},
	{"PatchedDuringBind", "a status that failed is written again while the pod is bound",
		[]killer{{binding, "TestStatus"}}, "the version that each patch carries keeps it harmless"},
	{"BindWithoutUID", "a Binding does not say which pod of the name it means",
		[]killer{{binder, "TestBind"}}, "the version that each Binding carries tells the pods apart, too"},
	{"BindWithoutVersion", "a Binding does not say which version of the pod it means",
		[]killer{{binding, "TestBindOutcomes"}}, ""},
	{"ExtenderBindBelieved", "an extender's word that it bound a pod is not checked",
		[]killer{{binding, "TestAnExtendersBindIsVerified"}}, noExtenders},

	{"BudgetDisregarded", "a victim that a PodDisruptionBudget keeps counts as any other",
		[]killer{{preemption, "TestVictimSelection"}}, "its clusters have no budgets"},
	{"OthersVictimsRenamed", "a pod whose victims are still leaving names others",
		[]killer{{preemption, "TestPreemptionErrors"}, {loop, "TestAPodWaitsForVictimsThatTerminateSlowly"}}, noHaste},
	{"TriedWhileVictimsAreTold", "a pod is tried while its victims are being told to go",
		[]killer{{loop, "TestAPodIsGatedWhileItsVictimsAreBeingEvicted"}, {binding, "TestEvictingEndsWhenTheLastVictimLeaves"}}, noHaste},
	{"VictimToldTwice", "a victim is told to go by everyone who names it",
		[]killer{{binding, "TestAVictimIsEvictedOnce"}}, ""},
	{"SharedVictimNotAwaited", "a preemptor is tried while another's plan tells their victim to go",
		[]killer{{binding, "TestAPreemptorWaitsWhileAnotherPlanEvictsItsVictim"}}, rare},
	{"MovedVictimForgotten", "a victim that was told to go is told again where somebody else bound it",
		[]killer{{binding, "TestAVictimThatAnotherSchedulerBindsIsNotEvictedAgain"}}, rare},
	{"VictimNotToldWhy", "a victim is deleted, and its status does not say why",
		[]killer{{loop, "TestAPodGetsTheResourcesOfItsVictims"}}, ""},
	{"VictimByName", "a victim is deleted by its name, whoever has it now",
		[]killer{{loop, "TestEvictionErrors"}}, rare},
	{"VictimOnItsWayDeleted", "a victim that could be stopped in memory is deleted",
		[]killer{{loop, "TestAVictimInItsBindingCycleGoesBackToTheQueue"}}, "to delete it breaks no promise that it knows"},
	{"LesserPromiseKept", "a lesser pod keeps its promise of the room that victims leave",
		[]killer{{loop, "TestALesserPodLosesItsNomination"}}, noHaste},
	{"EvictionEndsWithTheTurn", "victims are told only as long as the attempt lasts that named them",
		[]killer{{loop, "TestAPodOfAProfileWithOutOfTreePluginsGetsTheResourcesOfItsVictims"}}, ""},
	{"NaiveSwap", "a generation is swapped, the pods that wait are not told, and the old one is closed at once",
		[]killer{{profile, "TestAGenerationClosesWithItsLastBinding"}, {loop, "TestASwapDecidesByTheNewGeneration"}, {loop, everyCell}}, ""},
	{"OldClosedUnderBind", "the old generation is closed while bindings hold it",
		[]killer{{profile, "TestAGenerationClosesWithItsLastBinding"}, {loop, "TestABindingOutlivesASwap"}, {loop, everyCell}}, ""},
	{"HintOfClosedGeneration", "a hint of a generation that is closed is asked",
		[]killer{{profile, "TestAClosedGenerationsPluginsAreNotCalled"}}, rare},
	{"FailedBuildOverwrites", "a profile whose plugins cannot be built does not run any more",
		[]killer{{profile, "TestAFailedBuildKeepsTheRunningGeneration"}}, ""},
	{"EveryNamespaceAllowed", "a profile takes the pods of every namespace",
		[]killer{{profile, "TestPodsOfOtherNamespacesAreHeld"}}, "its profiles take the pods of every namespace"},
	{"DeletedProfilesUnfenced", "a new leader fences no pods of profiles that were deleted before it took over",
		[]killer{{operator, "TestProfilesThatANewLeaderFences"}}, "its leaders ask for profiles in a way of its own"},
	{"DeviceClassChangeIgnored", "a pod is not asked about again when a DeviceClass begins or ceases to back a resource that it requests",
		[]killer{{intake, "TestPodsThatRequestDevicesAreHeldWhileAClassBacksThem"}}, "its API server has no DeviceClasses"},
	{"TrialLeftOpen", "the plugins that were on trial are not closed",
		[]killer{{profile, "TestTrialOutcomes"}, {profile, "TestAThousandTrialsLeaveNothingBehind"}}, noTrial},
	{"LateUncounted", "calls of plugins that have not come back are not counted",
		[]killer{{loop, "TestCallsThatDoNotReturnAreCounted"}}, noPoison},
	{"SortWaitedFor", "a sort that hangs is waited for",
		[]killer{{loop, "TestASortThatHangsIsReplaced"}}, noPoison},
	{"LateHintAskedAgain", "hints of a plugin of which one hangs are waited for, one after the other",
		[]killer{{loop, "TestTheQueueWaitsForOneOfManyHintsThatHang"}}, noPoison},
	{"HintWaitedFor", "a hint that hangs is waited for",
		[]killer{{loop, "TestAHintThatHangsWakesThePod"}}, noPoison},
	{"HangsUnseen", "nobody says which plugin holds a pod up on its way",
		[]killer{{loop, "TestAPluginThatHangsInTheBindingCycleIsNamed"}}, noPoison},
	{"LateGateForgotten", "a gate that came back too late is not asked again",
		[]killer{{loop, "TestASlowGateIsCalledAgain"}}, ""},
	{"BrokenSortKept", "a sort that panicked goes on ordering pods",
		[]killer{{loop, "TestASortThatPanicsIsReplaced"}}, noPoison},
	{"TrialAsksExtenders", "a trial asks the extenders of the profile",
		[]killer{{profile, "TestATrialCallsNoExtender"}}, noTrial},
	{"VolumesNotReleased", "what was assumed of a volume for a pod that is not bound stays assumed",
		[]killer{{"scheduler/volumes", "TestReadsReturnAssumedObjects"}, {loop, "TestAReleasedVolumeWakesPodsThatWantIt"}}, noVolumes},
	{"VolumesByGeneration", "each generation has its own idea of what is assumed of volumes",
		[]killer{{loop, "TestASwapKeepsAssumedVolumes"}}, noVolumes},
	{"SortedUnattempted", "a trial sorts pods that have no time of a first attempt",
		[]killer{{queue, "TestNewQueuedEntityHasAnInitialAttemptTimestamp"}}, noTrial},
	{"SortUntried", "a trial does not ask who would be first",
		[]killer{{sandbox, "TestQueueSortIsEvaluated"}}, noTrial},
	{"TownKeepsTheGone", "a trial looks at a cluster that has all that an earlier one had",
		[]killer{{sandbox, "TestAReusedSandboxIsLikeANewOne"}}, noTrial},
	{"TrialInPlace", "a pod that runs is tried while it takes its own room",
		[]killer{{sandbox, "TestPodsThatTakeResourcesInTheSandbox"}}, noTrial},
	{"TrialBlamesTheNew", "what failed before counts against the new",
		[]killer{{profile, "TestCompare"}, {profile, "TestTrialOutcomes"}}, noTrial},
	{"TrialBelievesTheLate", "what is said on trial after the limit still counts",
		[]killer{{sandbox, "TestALateResultDoesNotCount"}}, noTrial},
	{"ExtenderRedirected", "redirections of an extender are followed",
		[]killer{{extender, "TestExtenderFailures"}}, noExtenders},
	{"ExtenderAnywhere", "an extender may be at any address",
		[]killer{{extender, "TestForbiddenAddressesAreNotDialled"}, {extender, "TestCheckConnect"}}, noExtenders},
	{"ExtenderEndless", "an extender's answer is read however long it is",
		[]killer{{extender, "TestExtenderFailures"}}, noExtenders},
	{"ExtenderOverscores", "an extender may score more than 10",
		[]killer{{extender, "TestPrioritizeAnswers"}}, noExtenders},

	{"ExtenderDoubted", "that an extender refuses a node for good is not read",
		[]killer{{extender, "TestFilterAnswers"}}, noExtenders},
	{"ExtenderLeftOpen", "the connections to an extender stay open when its profile asks it no more",
		[]killer{{extender, "TestCloseClosesIdleConnections"}}, noExtenders},
	{"FirstAddressTakesAll", "the first address of an extender may take all the time that a request has",
		[]killer{{extender, "TestAddressesAreDialledInTurn"}}, noExtenders},
	{"ScopedIndexBehind", "an index of a plugin takes in a change only after the read that follows it",
		[]killer{{scopes, "TestAnIndexIsNeverBehindAnEvent"}, {volumelimits, "TestFilterSeesTheAttachmentWhoseEventRequeuedThePod"}}, noVolumes},
	{"RelistsLeaveGhosts", "an index of a plugin keeps what a relist did not find",
		[]killer{{scopes, "TestAnIndexHasNothingThatARelistDidNotFind"}, {scopes, "TestAnIndexIsExactAfterAWatchThatBroke"}}, noVolumes},
	{"PodComparedByName", "a pod that waits for its volumes is taken for another one of the same name",
		[]killer{{volumebinding, "TestPreBind"}}, noVolumes},
	{"LossUntold", "what a converted configuration loses is told to nobody",
		[]killer{{convert, "TestFromKubeScheduler"}}, noFiles},
	{"DefaultsLeftOn", "kube-scheduler is not told which of its default plugins a profile does without",
		[]killer{{convert, "TestToKubeScheduler"}}, noFiles},
	{"OneConfigurationForAll", "profiles are written into one configuration although kube-scheduler can wait in one way only",
		[]killer{{convert, "TestToKubeScheduler"}}, noFiles},
	{"ReservedForgotten", "what a pod takes on its node beside its room is free for the pod that is tried next",
		[]killer{{"cmd/kubectl-berth/try", "TestTry"}}, noVolumes},
	{"StrangersExportTaken", "a ConfigMap that is somebody else's is written over",
		[]killer{{export, "TestSyncDoesNotTouchConfigMapsOfOthers"}}, noUsers},
	{"ExportOutlivesWish", "what was exported stays when nobody asks for it",
		[]killer{{export, "TestSyncDeletesConfigMapsThatAreNoLongerNamed"}}, noUsers},
	{"ExportSaysAll", "nobody is told what an export cannot say",
		[]killer{{export, "TestSyncReportsWhatCannotBeExpressed"}}, noUsers},
	{"NewsWhileWritingLost", "what is put while an explanation is being written is taken for written",
		[]killer{{explained, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"UpdatedAtOnce", "an explanation is updated whenever there is another",
		[]killer{{explained, "TestQueue"}, {explained, "TestRandomHistoriesLoseNoExplanation"}}, noWhy},
	{"DeletionsInARow", "what explains pods that are gone is deleted before what waits is updated",
		[]killer{{explained, "TestQueue"}}, noWhy},
	{"BoundExplainedOn", "why a pod waited is said for another minute when it is bound",
		[]killer{{explained, "TestQueue"}, {explainer, "TestObjectsOfBoundPodsAreDeletedWithinSecondsAtTwentyBindsASecond"}}, noWhy},
	{"OutdatedYields", "what is not true any more because of a bind yields to other binds",
		[]killer{{explainer, "TestObjectsOfBoundPodsAreDeletedWithinSecondsAtTwentyBindsASecond"}}, noWhy},
	{"FoundReasonsUnknown", "what stood before a restart is written again, whatever it says",
		[]killer{{explained, "TestQueue"}, {explainer, "TestAnUnchangedExplanationKeepsItsLastChangeOverARestart"}}, noWhy},

	{"PausedEventDropped", "an Event that the API server did not take at once is lost when the process ends",
		[]killer{{recorder, "TestCloseWritesTheEventThatAWriterRetries"}}, noEvents},
	{"EventsYieldForEver", "after a burst of binds two writers write its Events",
		[]killer{{recorder, "TestAllWritersRunOnceBindsHaveEnded"}}, noEvents},

	{"TakeoverUnseen", "a new leader decides before its informers hold what earlier ones wrote",
		[]killer{{loop, "TestANewLeaderWaitsForWhatItHasNotSeen"}}, noLeaders},
	{"LateBindingOfOthersPasses", "a Binding of an earlier leader binds a pod after the new one has begun to decide",
		[]killer{{loop, "TestALateBindingOfAnEarlierLeaderFails"}}, ""},
	{"JournalCommitSkipped", "a Binding of a pod that was refused before is sent without its commit in the journal",
		[]killer{{journal, "TestALateWriteOfAnEarlierLeaderFails"}, {journal, "TestWhatANewLeaderFences"}}, ""},
	{"JournalIgnored", "a new leader fences no pod for being in the journal",
		[]killer{{journal, "TestWhatANewLeaderFences"}, {loop, "TestWhichPodsANewLeaderFences"}}, ""},
	{"TakeoverCutShortCounts", "a leadership that ends before all pods were fenced tells the next leader that they are",
		[]killer{{loop, "TestAHandoverThatIsCutShortIsNotComplete"}}, "its leaders die, and do not end, while they take over"},
	{"RefusedWriterSpins", "a journal that may not be read is read without end",
		[]killer{{journal, "TestReadsOfAForbiddenJournalAreLimited"}}, noRefusal},
	{"ReleasedCommitUnanswered", "a commit of a pod that goes meanwhile has no answer",
		[]killer{{journal, "TestACommitEndsWhenItsPodIsForgotten"}}, "the commit times out after fifteen seconds, and the pod is tried again"},
	{"CarriedReleased", "a pod that could not be fenced leaves the journal with a Binding of another leader",
		[]killer{{journal, "TestAPodThatCouldNotBeFencedStaysUntilItIsGone"}}, "a pod that it tries in vain to fence is fenced, or bound, in the end"},
	{"UnansweredTakeWaits", "a leader whose first write of the journal was not answered, and the next ones refused, never begins",
		[]killer{{journal, "TestTakeOverWhileAWriteMayStillArrive"}}, noRefusal},
	{"UnansweredTakeForgotten", "Bindings are sent without a commit though a write of the journal may still arrive",
		[]killer{{journal, "TestTakeOverWhileAWriteMayStillArrive"}}, noRefusal},
	{"EveryPodFenced", "a new leader fences every pod that waits",
		[]killer{{loop, "TestWhichPodsANewLeaderFences"}}, "it costs time, and is safe"},
	{"WritesAfterTenure", "a leader that could not renew its Lease in time writes on",
		[]killer{{tenure, "TestWhenAWriteIsSent"}}, noLeaders},
	{"TheftUnnoticed", "a leader that reads of another holder writes on until it could not renew for long enough",
		[]killer{{tenure, "TestWhenAWriteIsSent"}}, noLeaders},
	{"SuccessorReleased", "a leader that wakes up too late releases the Lease of its successor",
		[]killer{{tenure, "TestTheLeaseOfASuccessorIsNotReleased"}}, noLeaders},

	{"LeaseTimesBelieved", "whether another scheduler is there is read from the times that it wrote",
		[]killer{{controllers, "TestDefaultSchedulerIsNotServedBesideAnotherScheduler"}}, noUsers},
	{"BadSpecOverwrites", "a profile whose spec is refused does not run any more",
		[]killer{{controllers, "TestStatusProgrammedDescribesWhatRuns"}}, noUsers},
	{"ObservedGenerationMissing", "a status does not say which generation it is about",
		[]killer{{controllers, "TestStatusProgrammedDescribesWhatRuns"}}, noUsers},
	{"SwapBeforePause", "a paused profile is swapped before it is paused",
		[]killer{{controllers, "TestAPauseComesBeforeTheSwapAndItsEndAfterIt"}}, noUsers},
	{"TrialIgnored", "a profile that failed its trial runs all the same",
		[]killer{{controllers, "TestAFailedTrialChangesNothingAndIsReported"}}, noUsers},
	{"TrialApproves", "what died on trial runs without having been approved",
		[]killer{{controllers, "TestACrashDuringATrialIsRecorded"}}, noUsers},
	{"AnyDeathBlames", "two ends of leading processes within ten minutes, of whatever cause, blame every revision on probation",
		[]killer{{controllers, "TestKillsBlameNoProfile"}}, noUsers},
	{"BuildDeathsIgnored", "a revision is not blamed for the processes that ended while they built it",
		[]killer{{controllers, "TestASpecThatCrashesDuringItsBuildIsReplaced"}}, noUsers},
	{"RebuiltAtOnce", "a blamed revision that nothing can replace is built again without a pause",
		[]killer{{controllers, "TestABlamedRevisionThatNothingReplacesIsBuiltLast"}}, noUsers},
	{"RetryIgnored", "berth.dev/retry clears nothing of what a revision is blamed for",
		[]killer{{controllers, "TestASpecThatCrashesDuringItsBuildIsReplaced"}}, noUsers},
	{"SecondsReplaceMinutes", "a revision that ran for seconds replaces one that crashed before others do that served for minutes",
		[]killer{{controllers, "TestARevisionThatRanForSecondsIsNotPreferredAsReplacement"}}, noUsers},
	{"CrashStackUnread", "that a plugin was on the stack of a process that crashed is not noted on revisions",
		[]killer{{controllers, "TestACrashStackBlamesTheRevisionsThatRunItsPlugin"}}, noUsers},
	{"ProvedByOneName", "a hash that another profile proved is on probation",
		[]killer{{controllers, "TestAHashThatAnotherProfileProvedIsProved"}}, noUsers},
	{"HeldUntold", "the pods of a profile under which nothing runs are not held",
		[]killer{{controllers, "TestThePodsOfAProfileThatDoesNotRunAreHeld"}}, noUsers},
	{"CallersBlamed", "a built-in plugin that called a plugin which crashed is blamed as well",
		[]killer{{crashreport, "TestPluginsOnTheStack"}}, noUsers},
	{"OldCrashesOutliveRetry", "a crash from before berth.dev/retry, noted after it, counts",
		[]killer{{controllers, "TestARetryIsNotUndoneByAnOlderCrash"}}, noUsers},
	{"ConflictsUndoRetry", "berth.dev/retry clears nothing where another process wrote to the revision",
		[]killer{{controllers, "TestARetrySurvivesAConflict"}}, noUsers},
	{"CrashNotesHurried", "profiles are run as soon as a crash could not be noted",
		[]killer{{controllers, "TestProfilesWaitTenSecondsForACrashThatCannotBeRecorded"}, {controllers, "TestACrashStackBlamesTheRevisionsThatRunItsPlugin"}}, noUsers},
	{"AppliedApart", "a profile and its PluginConfigs that are applied together are two revisions",
		[]killer{{controllers, "TestObjectsAppliedTogetherBecomeOneRevision"}}, noUsers},

	{"LandingLocked", "a lock is held while a late call on a pod's way to its node is reported",
		[]killer{{loop, "TestAPodIsBoundWhileItsAbandonedCallIsReported"}}, noWaits},
	{"LedgerPageReopened", "a decision about a pod of a deleted profile opens the profile's page in the ledger again",
		[]killer{{decided, "TestTheLedgerKeepsNothingOfAClosedProfile"}}, noLeaks},
	{"EarlierHoldsForgotten", "pods that an earlier process held for a profile that is gone are left alone",
		[]killer{{unserved, "TestPodsThatAnEarlierProcessHeldAreHeldWhenTheirProfileIsDeleted"}}, noUsers},
	{"CountsStartAnew", "a new leader counts from nothing what it publishes",
		[]killer{{controllers, "TestANewLeaderContinuesThePublishedCounts"}}, noUsers},
	{"AccountsOutliveProfile", "the queue keeps what it knows of a deleted profile when no pod of it is left",
		[]killer{{queue, "TestADeletedProfileLeavesNothingInTheQueue"}}, noLeaks},
	{"OldGenerationRemembers", "a generation that was replaced keeps its equivalence cache until it closes",
		[]killer{{loop, "TestAReplacedGenerationReleasesItsEquivalenceCache"}}, noLeaks},

	{"NewestForOldest", "of the pods that wait the newest is told for the oldest",
		[]killer{{queue, "TestMetricsCollector"}}, noMetrics},
	{"PluginsUntimed", "no attempt has its plugins timed",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"EventsUntimed", "it is not told how long changes of the cluster take",
		[]killer{{loop, "TestMetricsOfAttempts"}}, noMetrics},
	{"RefusedSpanLeftOpen", "the span of an attempt that finds no node is never ended",
		[]killer{{loop, "TestAnAttemptIsATrace"}}, noTraces},
	{"RequestsUntraced", "the API server is not told which attempt a request belongs to",
		[]killer{{operator, "TestRequestsOfATracedAttemptCarryItsContext"}}, noTraces},
	{"WatchesGiveUp", "a watch fails while the API server is away, and is left to back off",
		[]killer{{operator, "TestWatchesWaitForAnUnreachableAPIServer"}}, "its API server is always there"},
	{"MetricsForAll", "whoever asks is told metrics",
		[]killer{{operator, "TestTheFlagsDecideWhoMayReadMetrics"}}, noMetrics},
	{"LastWordsLost", "what was decided shortly before the end is not published",
		[]killer{{controllers, "TestTheLastDecisionsArePublishedAtShutdown"}}, noUsers},
	{"OneVersionDecoded", "revisions that were stored under another version of the API are not read",
		[]killer{{controllers, "TestARevisionStoredUnderAnotherAPIVersionIsRead"}}, noUsers},
	{"LargeRevisionsNotStored", "a revision of more than 64 KiB is kept in memory only",
		[]killer{{controllers, "TestARevisionOfAlmostAMebibyteIsStored"}}, noUsers},
	{"ProbesNamePods", "a probe that fails names the pod that the loop is at, and its profile",
		[]killer{{loop, "TestAHungLoopFailsTheLivenessCheck"}}, noEnd},
	{"ProbesNameProfiles", "a probe that fails names the profiles that would be refused",
		[]killer{{controllers, "TestAReplicaIsReadyUnlessItWouldRefuseWhatRuns"}}, noUsers},
}
