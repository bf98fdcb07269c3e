package main

// planted are faults that are hard to find: a wake-up that is lost once in ten thousand, a
// limit that is one too high, a check that one caller in five skips. They show what each layer
// of tests finds; a layer need not find all.
var planted = []plantedFault{
	{"WakeUpLost", "once in 10,000 events that wake pods, one of these pods is not woken"},
	{"InFlightEventLost", "one of 1,000 events is not kept for the pods in flight"},
	{"FirstOfManyEventsSkipped", "of more than two events during an attempt, the first is not evaluated"},
	{"ActivationLost", "one of 50 activations of pods in flight is lost"},
	{"SignalLost", "once in 1,000 times that pods are requeued, the loop is not woken"},
	{"SwapMissesAPod", "a swap leaves out one of 500 pods"},
	{"RecheckForgotten", "one of 20 pods whose holds changed while it was requeued is not checked again"},
	{"ChangeForgotten", "one of 20 pods that changed while its gates were checked is not checked again"},
	{"BackoffFromTheFirstFailure", "one of four failures does not count for the beginning of the backoff"},
	{"BackoffSkipsAStep", "from the fourth failure on, the backoff is one step too long"},
	{"BackoffEndsAWindowEarly", "a backoff ends one window of a second early"},
	{"QuarantineOneFaultLate", "a pod is quarantined one fault late"},

	{"AssumptionKept", "one of 300 pods that are given up keeps its resources"},
	{"OldVersionStillCounts", "one of 2,000 updates of pods leaves the old version on the node"},
	{"DeletedNodeKept", "one of 30 deleted nodes stays"},
	{"ChangedObjectsUnmarked", "one of three changes of objects that plugins list does not end cached results"},
	{"NominationLostInUpdate", "one of 20 updates of a pod ends the nomination that its status does not show yet"},
	{"NominationWithoutVersion", "one of three nominations leaves what was cached for the node valid"},
	{"AssumedPodStaysNominated", "one of 100 assumed pods stays nominated"},

	{"OpenBindingForgotten", "one of five Bindings that may still arrive is not invalidated"},
	{"ChangedPodBoundAgain", "one of three pods that changed while they were bound is bound again without a new decision"},
	{"PodReadByName", "a pod that was created again counts as the one that was being bound"},
	{"UnreserveSkipped", "one of 100 pods that are given up is not unreserved"},
	{"StatusAfterTheBind", "one of ten pending status writes is sent after the pod was bound"},
	{"StatusGivenUpEarly", "a status is given up after three failures"},
	{"DeliveredVersionForgotten", "a version that the informer delivered during a patch is forgotten"},
	{"FailedEvictionCounts", "the second failure of an eviction counts as success"},
	{"NewerEvictionEnds", "the end of an eviction ends a newer one of the same pod"},
	{"VictimEvictedTwice", "one of ten victims is evicted again while it terminates"},
	{"SecondWaiterForgotten", "of two plans that wait for one victim, the second waits for ever"},
	{"EqualPriorityEvicted", "one of 50 pods of equal priority is a victim"},

	{"FreshPodNotFenced", "a new leader does not fence one of five fresh pods"},
	{"DeletedNodesNotAwaited", "a new leader decides before it has seen that nodes were deleted"},
	{"BoundMeanwhileNotAwaited", "a new leader decides before it has seen the pods that were bound during the handover"},
	{"OlderVersionSuffices", "an older version satisfies one of 50 checks of a new leader"},
	{"ReleasedPodCommitted", "a pod that is not in the journal counts as written there"},
	{"InheritedPodsDropped", "one of three writes of the journal drops the earlier leader's pods"},
	{"SuccessorsJournalOverwritten", "a leader that was replaced writes over its successor's journal"},

	{"PausedProfileDecides", "one of 20 pods of a paused profile is scheduled"},
	{"NodeRemovedAfterItsEvent", "a pod that a node's deletion wakes finds the node"},
	{"ListedPodNotReadAgain", "one of five pods that a new profile finds stays at the version that was listed"},
	{"EqualPriorityNotWoken", "the end of a nomination wakes no pod of equal priority"},
	{"TerminatingPodKeepsItsNode", "a nominated pod that terminates wakes no other pod"},

	{"VolumeStaysAssumed", "one of five volumes stays assumed for a pod that is not bound"},
	{"WrittenVolumeReleased", "a volume that was written is released with its pod"},
	{"DoubtForgotten", "devices whose allocation may have been written count as free"},
	{"ClaimReadByName", "a claim that was created again counts as the one that was being allocated"},
	{"OlderClaimAccepted", "one of three older versions of a claim replaces a newer one"},
}
