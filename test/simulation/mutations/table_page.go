package main

// noPage says why the simulation finds none of these.
const noPage = "nobody opens the page"

// guard is the test of what the page's server rejects.
const guard = "TestTheGuard"

// pageMutants break the server of the page of kubectl berth ui.
var pageMutants = []mutant{
	{"PageForAnyHost", "the page answers requests to the name of another site, which resolves to it (DNS rebinding)",
		[]killer{{page, guard}, {page, "TestTheVerbServesThePageUntilItIsInterrupted"}}, noPage},
	{"PageForAnyOrigin", "the page answers requests with the Origin of another site", []killer{{page, guard}}, noPage},
	{"PageForAnySite", "the page answers requests that the browser says another site made", []killer{{page, guard}}, noPage},
	{"PageWithoutToken", "the page answers requests for data without the token",
		[]killer{{page, guard}, {page, "TestTheVerbServesThePageUntilItIsInterrupted"}}, noPage},
	{"PageTokenPrefix", "the page takes the beginning of the token for the token", []killer{{page, guard}}, noPage},
	{"PageTokenInQuery", "the page takes the token from the URL, which ends up in logs", []killer{{page, guard}}, noPage},
	{"PageTokenRepeats", "each run of the page has the same token", []killer{{page, "TestTokensDiffer"}}, noPage},
	{"PageAnyMethod", "the page answers requests with any method", []killer{{page, guard}}, noPage},
	{"PagePathUnchecked", "the page redirects paths with empty segments or dots", []killer{{page, guard}}, noPage},
	{"PageAnyBodyType", "the page reads bodies that a form of another site can send", []killer{{page, guard}}, noPage},
	{"PageBodyUnbounded", "the page reads bodies of any size", []killer{{page, "TestABodyHasABound"}}, noPage},
	{"PageWithoutPolicy", "the page has no content policy", []killer{{page, guard}}, noPage},
	{"PageOnAllInterfaces", "the page is served to other machines", []killer{{page, "TestTheServerListensOnTheLoopbackInterfaceOnly"}}, noPage},
	{"PageTextUnescaped", "texts of the cluster are sent with < and >", []killer{{page, "TestHostileTextsAreEscaped"}}, noPage},

	{"PageSnapshotTooEarly", "a stream sends its snapshot before everything is listed", []killer{{page, "TestASilentStreamIsPinged"}}, noPage},
	{"PageDeltasAtOnce", "a stream sends each change at once", []killer{{page, "TestChangesAreMerged"}}, noPage},
	{"PageStreamsUnbounded", "any number of streams may be open", []killer{{page, "TestTheNumberOfStreamsHasABound"}}, noPage},
	{"PageExpensiveUnbounded", "any number of pods is evaluated at a time", []killer{{page, "TestAnExpensiveRequestWaitsForOthers"}}, noPage},
	{"PageKeepsMemory", "the memory of a copy of the cluster is kept after a pod was evaluated", []killer{{page, "TestTheMemoryOfAnExpensiveRequestIsReturned"}}, noPage},
	{"PageKeepsOldTaints", "what would make a pod fit names the taint that a node had before", []killer{{page, "TestAChangedTaintChangesWhatWouldMakePodsFit"}}, noPage},
	{"PageTenantSeesNothing", "who may list pods in one namespace only sees none", []killer{{page, "TestATenantSeesOneNamespace"}}, noPage},
}
