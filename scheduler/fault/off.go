//go:build !mutants

package fault

// The faults, by the room that each breaks.
const (
	// In queue.

	// EventInFlightDropped: events that happen between pop and requeue are not kept.
	EventInFlightDropped = false
	// HintAlwaysSkips: every queueing hint is taken for Skip.
	HintAlwaysSkips = false
	// HeapNotRebuilt: a new sort takes over a heap that another one ordered.
	HeapNotRebuilt = false
	// LessOfClosedGeneration: a heap keeps asking the sort of a generation that was replaced.
	LessOfClosedGeneration = false
	// LanesTakeNoTurns: one heap is always looked into first.
	LanesTakeNoTurns = false
	// PoppedFromABatch: a pod is popped while others that the same event woke are still being put down.
	PoppedFromABatch = false
	// WakesItself: an event that is not meant for a pod in flight reaches it.
	WakesItself = false
	// OlderVersionTaken: a pod in the queue becomes older than it was.
	OlderVersionTaken = false
	// HeldToldForEver: a parked pod is told that it is held although it knows.
	HeldToldForEver = false
	// OpenGateUnnoticed: a pod whose gate opened without waking it stays gated.
	OpenGateUnnoticed = false
	// BackoffEndsWithASwap: a swap lets pods go that back off.
	BackoffEndsWithASwap = false
	// TouchedPodSleeps: a pod whose rejecting plugin changed is not tried again.
	TouchedPodSleeps = false
	// ChosenNodeForgotten: that another node may be chosen now is nothing to a pod that was refused on its node.
	ChosenNodeForgotten = false
	// WalksShareTheirPlace: a walk through a profile's pods begins where another one is.
	WalksShareTheirPlace = false
	// SliceTooLarge: a swap goes through many more pods under one hold of the lock.
	SliceTooLarge = false
	// SwapUnheardOnTheWay: a pod that is on its way to its place does not hear of a swap.
	SwapUnheardOnTheWay = false
	// AdmittedUnasked: a pod that is popped before a swap came to it counts as let in by the new gates.
	AdmittedUnasked = false
	// ToldAsBefore: a swap that has more told of pods that wait, or less, changes nothing about those that do.
	ToldAsBefore = false
	// InTheWayForgotten: a plugin that is in the way of making room may go, and the pod is not tried again.
	InTheWayForgotten = false
	// PoisonUncounted: that plugins panic at a pod is forgotten with each attempt.
	PoisonUncounted = false
	// NeverSetAside: a pod at which plugins panic again and again is tried like any other.
	NeverSetAside = false
	// SlowPreferred: a profile whose attempts take long has its turn like any other.
	SlowPreferred = false

	// In intake.

	// ComesBackAsItWas: a pod that changed while it was bound is tried again as it was.
	ComesBackAsItWas = false
	// PromiseOutlivesProfile: a nomination that ends while its profile is gone is kept.
	PromiseOutlivesProfile = false
	// NowhereDeleted: the deletion of an assumed pod does not say where it was.
	NowhereDeleted = false
	// DeletedWaitsOn: a pod that is deleted goes on waiting at Permit.
	DeletedWaitsOn = false
	// SilentPromiseEnds: the end of a promise that only memory knew is told to nobody.
	SilentPromiseEnds = false

	// In the loop.

	// NewGatePassed: a pod that an older generation let in is not asked about again.
	NewGatePassed = false
	// PlacedPodTried: a pod that has a node is tried.
	PlacedPodTried = false
	// FreedRoomUntold: nobody hears of the room that a failed binding leaves.
	FreedRoomUntold = false
	// AdoptedUnseen: a profile adopts pods that went while they were listed.
	AdoptedUnseen = false
	// PromisesAdoptedInTurn: a pod is tried before the promises are known to those that are adopted with it.
	PromisesAdoptedInTurn = false
	// PromiseAdopted: a promise that ends while its pod is adopted is kept.
	PromiseAdopted = false
	// UntoldPromiseForgotten: a pod that keeps its promise loses it where its status does not hold it yet.
	UntoldPromiseForgotten = false
	// GoneStaysAssumed: a pod that was bound by somebody else, and gone, before it was assumed counts for ever.
	GoneStaysAssumed = false
	// BoundForgotten: a pod that the queue has forgotten is taken for gone, and its room for free.
	BoundForgotten = false
	// LeaverAsked: a heap that everybody leaves asks the sort of who left first.
	LeaverAsked = false
	// DoomedPromised: room stays promised to a pod that is being deleted.
	DoomedPromised = false
	// PromiseEndsByStatus: that a promise ends is left to the status, which may not be written.
	PromiseEndsByStatus = false
	// OldLeaderRefuses: the end of a leadership is written as a verdict.
	OldLeaderRefuses = false
	// TenantsReadAll: explanations name nodes and pods of other namespaces.
	TenantsReadAll = false
	// TaintsWakeUntold: explanations do not say that other taints of a node wake a pod.
	TaintsWakeUntold = false
	// UnsaidForGood: a pod whose explanation was taken back is not explained again.
	UnsaidForGood = false
	// GoneExplained: a pod that goes while it is explained stays explained.
	GoneExplained = false
	// LateShown: a plugin that was left behind sees the nodes move.
	LateShown = false
	// LateLooksOn: a plugin that was left behind sees the nodes move of which it asks its Handle.
	LateLooksOn = false
	// HungLoopLives: a loop that hangs is said to be alive.
	HungLoopLives = false
	// SlowCallsAddUp: a plugin of which each call comes back is taken for one that hangs.
	SlowCallsAddUp = false
	// BindsEndWithTheLoop: bindings under way end when the process is asked to end.
	BindsEndWithTheLoop = false
	// WaitersHoldUpTheEnd: pods that wait at Permit keep the process from ending.
	WaitersHoldUpTheEnd = false
	// LagIsADifference: what a watch has not told yet is told as a difference.
	LagIsADifference = false

	// In cache.

	// AssumedTwice: a pod is assumed without a look whether its UID has a node.
	AssumedTwice = false
	// ConfirmedTwice: a pod that was assumed counts twice once it is confirmed.
	ConfirmedTwice = false
	// NominatedBesides: a pod that has a node is nominated besides.
	NominatedBesides = false

	// In cycle.

	// RotationNotAdvanced: every walk over the nodes starts at the same one.
	RotationNotAdvanced = false
	// KForKPlusOne: the walk ends with the last node that it needs, not with one that it does not.
	KForKPlusOne = false
	// FirstOfATie: the first of equal nodes wins.
	FirstOfATie = false
	// VerdictOutlivesNode: what is remembered of a node outlives a change to it.
	VerdictOutlivesNode = false
	// StrangerUnheard: an opaque plugin is not asked about a node beside what is remembered.
	StrangerUnheard = false
	// LabelsReadBesideTheLoop: a profile that is built adds to the labels that the loop reads.
	LabelsReadBesideTheLoop = false
	// NumbersNeverEvicted: the numbers within a counted set of pods are never dropped.
	NumbersNeverEvicted = false
	// TopologiesNeverReclaimed: a topology key keeps its place for the life of the process.
	TopologiesNeverReclaimed = false
	// AbsentTopologiesTakePlaces: a topology key that no node carries takes the place of one that nodes carry.
	AbsentTopologiesTakePlaces = false
	// NominatedSiblingNowhere: ServiceAffinity looks for a nominated pod on the node that its spec names.
	NominatedSiblingNowhere = false
	// LastPodUnchecked: the pod that was looked up last is of the same class still, whatever selectors name now.
	LastPodUnchecked = false
	// BudgetPerProfile: each equivalence cache has the whole budget of the process for itself.
	BudgetPerProfile = false
	// EvictedClassUsed: a class that gave way to others is used when its pod is tried again.
	EvictedClassUsed = false
	// NearestOutlivesSnapshot: what was nearest to a pod's class is so for ever.
	NearestOutlivesSnapshot = false
	// ExcludedNodesNear: a node that the pod's selector excludes is called close as soon as it has room.
	ExcludedNodesNear = false
	// LinesTwice: an explanation says the same twice.
	LinesTwice = false
	// FarGuesses: a name is guessed that has little in common with the one that was given.
	FarGuesses = false
	// OneArgumentError: of a plugin's arguments the first kind of error is reported alone.
	OneArgumentError = false
	// ErrorByEveryCondition: each condition that an error makes False reports the error as an Event of its own.
	ErrorByEveryCondition = false
	// NodesUnordered: nodes that are there at the start are tried in the order of client-go's map.
	NodesUnordered = false
	// AnnotationNamesNodes: under detail: Reasons the annotation names nodes beside the pod's own.
	AnnotationNamesNodes = false
	// ExtenderRefusalsResolvable: a refusal by an extender that nothing resolves is taken for one that victims resolve.
	ExtenderRefusalsResolvable = false
	// ExtenderIgnoredFails: an extender that may be ignored fails the pod's attempt.
	ExtenderIgnoredFails = false
	// ExtendersRemembered: a pod goes the way of what is remembered although an extender is to be asked.
	ExtendersRemembered = false

	// LastVictimUnheard: a preemptor that was refused for one victim's sake is not woken by the last one.
	LastVictimUnheard = false

	// In framework.

	// KeyForgetsTolerations: pods with other tolerations are of one class.
	KeyForgetsTolerations = false
	// PanicPasses: a plugin's panic is not recovered.
	PanicPasses = false
	// UnreserveInOrder: claims are taken back in the order in which they were made.
	UnreserveInOrder = false
	// TrialMeasured: what plugins do on trial counts as if it were for real.
	TrialMeasured = false
	// LateBelieved: an attempt that was left behind goes on when its plugin comes back.
	LateBelieved = false
	// FirstMissingAlone: of what keeps a pod from a node only what the first plugin says is told.
	FirstMissingAlone = false
	// PromisesNotMissing: room that is promised to others is taken for free where a node is called near.
	PromisesNotMissing = false

	// In binding.

	// ForgetSkipped: a pod stays assumed after its binding failed.
	ForgetSkipped = false
	// ForgottenFirst: a pod is forgotten before its claims are taken back.
	ForgottenFirst = false
	// WaitingUnreserveForgotten: the claims of a pod that was refused while it waited at Permit are not taken back.
	WaitingUnreserveForgotten = false
	// WaitsAfterUndo: a pod whose binding was undone still waits at Permit.
	WaitsAfterUndo = false
	// DeafAtPermit: events are not kept for a pod that waits at Permit.
	DeafAtPermit = false
	// NominationOutlivesAssume: an assumed pod is still nominated.
	NominationOutlivesAssume = false
	// ConflictIsFailure: a conflict is taken for a failure.
	ConflictIsFailure = false
	// UnknownIsFailure: an answer that does not say whether the write counted is taken for a failure.
	UnknownIsFailure = false
	// FormsCompared: what is read from the API server is compared as it is with what the informer trimmed.
	FormsCompared = false
	// ViewOutlivesPod: what the answer to a patch told is remembered of a pod that was forgotten meanwhile.
	ViewOutlivesPod = false
	// ChangedPodBound: a pod that is not what was decided about any more is bound.
	ChangedPodBound = false
	// AnnotationEndsBinding: a pod that a plugin annotates at PreBind is not bound when the informer lags.
	AnnotationEndsBinding = false
	// LateBindingLeftOpen: a pod goes elsewhere while a Binding of it is on its way.
	LateBindingLeftOpen = false
	// ClosingBelieved: a Binding counts as closed although the write that closes it was refused.
	ClosingBelieved = false
	// NewsBehindAMarkWaits: news of a pod that comes while a new leader marks it is not sent before there is other news.
	NewsBehindAMarkWaits = false
	// PatchedDuringBind: a status that failed is written again while the pod is bound.
	PatchedDuringBind = false
	// BindWithoutUID: a Binding does not say which pod of the name it means.
	BindWithoutUID = false
	// BindWithoutVersion: a Binding does not say which version of the pod it means.
	BindWithoutVersion = false
	// ExtenderBindBelieved: an extender's word that it bound a pod is not checked.
	ExtenderBindBelieved = false

	// In preemption, and in binding which carries it out.

	// BudgetDisregarded: a victim that a PodDisruptionBudget keeps counts as any other.
	BudgetDisregarded = false
	// OthersVictimsRenamed: a pod whose victims are still leaving names others.
	OthersVictimsRenamed = false
	// TriedWhileVictimsAreTold: a pod is tried while its victims are being told to go.
	TriedWhileVictimsAreTold = false
	// VictimToldTwice: a victim is told to go by everyone who names it.
	VictimToldTwice = false
	// SharedVictimNotAwaited: a preemptor is tried while another's plan tells their victim to go.
	SharedVictimNotAwaited = false
	// MovedVictimForgotten: a victim that was told to go is told again where somebody else bound it.
	MovedVictimForgotten = false
	// VictimNotToldWhy: a victim is deleted, and its status does not say why.
	VictimNotToldWhy = false
	// VictimByName: a victim is deleted by its name, whoever has it now.
	VictimByName = false
	// VictimOnItsWayDeleted: a victim that could be stopped in memory is deleted.
	VictimOnItsWayDeleted = false
	// LesserPromiseKept: a lesser pod keeps its promise of the room that victims leave.
	LesserPromiseKept = false
	// EvictionEndsWithTheTurn: victims are told only as long as the attempt lasts that named them.
	EvictionEndsWithTheTurn = false

	// In profile.

	// NaiveSwap: a generation is swapped, the pods that wait are not told, and the old one is closed at once.
	NaiveSwap = false
	// OldClosedUnderBind: the old generation is closed while bindings hold it.
	OldClosedUnderBind = false
	// HintOfClosedGeneration: a hint of a generation that is closed is asked.
	HintOfClosedGeneration = false
	// FailedBuildOverwrites: a profile whose plugins cannot be built does not run any more.
	FailedBuildOverwrites = false
	// EveryNamespaceAllowed: a profile takes the pods of every namespace.
	EveryNamespaceAllowed = false
	// DeletedProfilesUnfenced: a new leader fences no pods of profiles that were deleted before it took over.
	DeletedProfilesUnfenced = false
	// DeviceClassChangeIgnored: a pod is not asked about again when a DeviceClass begins
	// or ceases to back a resource that it requests.
	DeviceClassChangeIgnored = false
	// TrialLeftOpen: the plugins that were on trial are not closed.
	TrialLeftOpen = false
	// LateUncounted: calls of plugins that have not come back are not counted.
	LateUncounted = false
	// SortWaitedFor: a sort that hangs is waited for.
	SortWaitedFor = false
	// LateHintAskedAgain: hints of a plugin of which one hangs are waited for, one after the other.
	LateHintAskedAgain = false
	// HintWaitedFor: a hint that hangs is waited for.
	HintWaitedFor = false
	// HangsUnseen: nobody says which plugin holds a pod up on its way.
	HangsUnseen = false
	// LateGateForgotten: a gate that came back too late is not asked again.
	LateGateForgotten = false
	// BrokenSortKept: a sort that panicked goes on ordering pods.
	BrokenSortKept = false
	// TrialAsksExtenders: a trial asks the extenders of the profile.
	TrialAsksExtenders = false

	// In volumes.

	// VolumesNotReleased: what was assumed of a volume for a pod that is not bound stays assumed.
	VolumesNotReleased = false
	// VolumesByGeneration: each generation has its own idea of what is assumed of volumes.
	VolumesByGeneration = false

	// In trial.

	// SortedUnattempted: a trial sorts pods that have no time of a first attempt.
	SortedUnattempted = false
	// SortUntried: a trial does not ask who would be first.
	SortUntried = false
	// TownKeepsTheGone: a trial looks at a cluster that has all that an earlier one had.
	TownKeepsTheGone = false
	// TrialInPlace: a pod that runs is tried while it takes its own room.
	TrialInPlace = false
	// TrialBlamesTheNew: what failed before counts against the new.
	TrialBlamesTheNew = false
	// TrialBelievesTheLate: what is said after the limit still counts.
	TrialBelievesTheLate = false

	// In extender.

	// ExtenderRedirected: redirections of an extender are followed.
	ExtenderRedirected = false
	// ExtenderAnywhere: an extender may be at any address.
	ExtenderAnywhere = false
	// ExtenderEndless: an extender's answer is read however long it is.
	ExtenderEndless = false
	// ExtenderOverscores: an extender may score more than 10.
	ExtenderOverscores = false
	// ExtenderDoubted: that an extender refuses a node for good is not read.
	ExtenderDoubted = false
	// ExtenderLeftOpen: the connections to an extender stay open when its profile asks it no more.
	ExtenderLeftOpen = false
	// FirstAddressTakesAll: the first address of an extender may take all the time that a request has.
	FirstAddressTakesAll = false
	// ScopedIndexBehind: an index of a plugin takes in a change only after the read that follows it.
	ScopedIndexBehind = false
	// RelistsLeaveGhosts: an index of a plugin keeps what a relist did not find.
	RelistsLeaveGhosts = false
	// PodComparedByName: a pod that waits for its volumes is taken for another one of the same name.
	PodComparedByName = false

	// In upstreamconfig.

	// LossUntold: what a converted configuration loses is told to nobody.
	LossUntold = false
	// DefaultsLeftOn: kube-scheduler is not told which of its default plugins a profile does without.
	DefaultsLeftOn = false
	// OneConfigurationForAll: profiles are written into one configuration although kube-scheduler can wait in one way only.
	OneConfigurationForAll = false

	// In offline.

	// ReservedForgotten: what a pod takes on its node beside its room is free for the pod that is tried next.
	ReservedForgotten = false

	// In scope.

	// In volumebinding.

	// In controllers/export.

	// StrangersExportTaken: a ConfigMap that is somebody else's is written over.
	StrangersExportTaken = false
	// ExportOutlivesWish: what was exported stays when nobody asks for it.
	ExportOutlivesWish = false
	// ExportSaysAll: nobody is told what an export cannot say.
	ExportSaysAll = false

	// In decision.

	// NewsWhileWritingLost: what is put while an explanation is being written is taken for written.
	NewsWhileWritingLost = false
	// UpdatedAtOnce: an explanation is updated whenever there is another.
	UpdatedAtOnce = false
	// DeletionsInARow: what explains pods that are gone is deleted before what waits is updated.
	DeletionsInARow = false
	// BoundExplainedOn: why a pod waited is said for another minute when it is bound.
	BoundExplainedOn = false
	// OutdatedYields: what is not true any more because of a bind yields to other binds.
	OutdatedYields = false
	// FoundReasonsUnknown: what stood before a restart is written again, whatever it says.
	FoundReasonsUnknown = false

	// In recorder.

	// PausedEventDropped: an Event that the API server did not take at once is lost when the process ends.
	PausedEventDropped = false
	// EventsYieldForEver: after a burst of binds two writers write its Events.
	EventsYieldForEver = false

	// In tenure, and in the loop and binding for who takes over.

	// TakeoverUnseen: a new leader decides before its informers hold what earlier ones wrote.
	TakeoverUnseen = false
	// LateBindingOfOthersPasses: a Binding of an earlier leader binds a pod after the new one has begun to decide.
	LateBindingOfOthersPasses = false
	// JournalCommitSkipped: a Binding of a pod that was refused before is sent without its commit in the journal.
	JournalCommitSkipped = false
	// JournalIgnored: a new leader fences no pod for being in the journal.
	JournalIgnored = false
	// TakeoverCutShortCounts: a leadership that ends before all pods were fenced tells the next leader that they are.
	TakeoverCutShortCounts = false
	// RefusedWriterSpins: a journal that may not be read is read without end.
	RefusedWriterSpins = false
	// ReleasedCommitUnanswered: a commit of a pod that goes meanwhile has no answer.
	ReleasedCommitUnanswered = false
	// CarriedReleased: a pod that could not be fenced leaves the journal with a Binding of another leader.
	CarriedReleased = false
	// UnansweredTakeWaits: a leader whose first write of the journal was not answered, and the next ones refused, never begins.
	UnansweredTakeWaits = false
	// UnansweredTakeForgotten: Bindings are sent without a commit though a write of the journal may still arrive.
	UnansweredTakeForgotten = false
	// EveryPodFenced: a new leader fences every pod that waits.
	EveryPodFenced = false
	// WritesAfterTenure: a leader that could not renew its Lease in time writes on.
	WritesAfterTenure = false
	// TheftUnnoticed: a leader that reads of another holder writes on until it could not renew for long enough.
	TheftUnnoticed = false
	// SuccessorReleased: a leader that wakes up too late releases the Lease of its successor.
	SuccessorReleased = false

	// In controllers.

	// LeaseTimesBelieved: whether another scheduler is there is read from the times that it wrote.
	LeaseTimesBelieved = false
	// BadSpecOverwrites: a profile whose spec is refused does not run any more.
	BadSpecOverwrites = false
	// ObservedGenerationMissing: a status does not say which generation it is about.
	ObservedGenerationMissing = false
	// SwapBeforePause: a paused profile is swapped before it is paused.
	SwapBeforePause = false
	// TrialIgnored: a profile that failed its trial runs all the same.
	TrialIgnored = false
	// TrialApproves: what died on trial runs without having been approved.
	TrialApproves = false
	// AnyDeathBlames: two ends of leading processes within ten minutes, of whatever cause, blame every revision on probation.
	AnyDeathBlames = false
	// BuildDeathsIgnored: a revision is not blamed for the processes that ended while they built it.
	BuildDeathsIgnored = false
	// RebuiltAtOnce: a blamed revision that nothing can replace is built again without a pause.
	RebuiltAtOnce = false
	// RetryIgnored: berth.dev/retry clears nothing of what a revision is blamed for.
	RetryIgnored = false
	// SecondsReplaceMinutes: a revision that ran for seconds replaces one that crashed before others do that served for minutes.
	SecondsReplaceMinutes = false
	// CrashStackUnread: that a plugin was on the stack of a process that crashed is not noted on revisions.
	CrashStackUnread = false
	// ProvedByOneName: a hash that another profile proved is on probation.
	ProvedByOneName = false
	// HeldUntold: the pods of a profile under which nothing runs are not held.
	HeldUntold = false
	// CallersBlamed: a built-in plugin that called a plugin which crashed is blamed as well.
	CallersBlamed = false
	// OldCrashesOutliveRetry: a crash from before berth.dev/retry, noted after it, counts.
	OldCrashesOutliveRetry = false
	// ConflictsUndoRetry: berth.dev/retry clears nothing where another process wrote to the revision.
	ConflictsUndoRetry = false
	// CrashNotesHurried: profiles are run as soon as a crash could not be noted.
	CrashNotesHurried = false
	// AppliedApart: a profile and its PluginConfigs that are applied together are two revisions.
	AppliedApart = false

	// In what runs beside the loop.

	// LandingLocked: a lock is held while a late call on a pod's way to its node is reported.
	LandingLocked = false
	// LedgerPageReopened: a decision about a pod of a deleted profile opens the profile's page in the ledger again.
	LedgerPageReopened = false
	// EarlierHoldsForgotten: pods that an earlier process held for a profile that is gone are left alone.
	EarlierHoldsForgotten = false
	// CountsStartAnew: a new leader counts from nothing what it publishes.
	CountsStartAnew = false
	// AccountsOutliveProfile: the queue keeps what it knows of a deleted profile when no pod of it is left.
	AccountsOutliveProfile = false
	// OldGenerationRemembers: a generation that was replaced keeps its equivalence cache until it closes.
	OldGenerationRemembers = false

	// In what is told of all of them.

	// NewestForOldest: of the pods that wait the newest is told for the oldest.
	NewestForOldest = false
	// PluginsUntimed: no attempt has its plugins timed.
	PluginsUntimed = false
	// EventsUntimed: it is not told how long changes of the cluster take.
	EventsUntimed = false
	// RefusedSpanLeftOpen: the span of an attempt that finds no node is never ended.
	RefusedSpanLeftOpen = false
	// RequestsUntraced: the API server is not told which attempt a request belongs to.
	RequestsUntraced = false
	// WatchesGiveUp: a watch fails while the API server is away, and is left to back off.
	WatchesGiveUp = false
	// MetricsForAll: whoever asks is told metrics.
	MetricsForAll = false
	// LastWordsLost: what was decided shortly before the end is not published.
	LastWordsLost = false
	// OneVersionDecoded: revisions that were stored under another version of the API are not read.
	OneVersionDecoded = false
	// LargeRevisionsNotStored: a revision of more than 64 KiB is kept in memory only.
	LargeRevisionsNotStored = false
	// ProbesNamePods: a probe that fails names the pod that the loop is at, and its profile.
	ProbesNamePods = false
	// ProbesNameProfiles: a probe that fails names the profiles that would be refused.
	ProbesNameProfiles = false

	// In cache, framework, cycle and serviceaffinity, of bounds.

)
