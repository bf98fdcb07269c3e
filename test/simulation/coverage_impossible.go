package simulation

// Why a cell cannot be met. A run that meets one says so: the reason is wrong then.
const (
	sameState = "a change of the state is meant"
)

func impossibleTransition(from, to string) string {
	switch {
	case from == to:
		return sameState
	case from == stateDeleted:
		return "another pod has another UID"
	case isGone(from) && !isGone(to):
		return "another pod has another UID"
	}
	return ""
}

func impossibleOwnEvent(_, _ string) string { return "" }

func impossibleOtherEvent(_, _ string) string { return "" }

func impossibleRequest(_, _ string) string { return "" }

func impossibleLate(_, _ string) string { return "" }

func impossibleChange(_, _ string) string { return "" }

func impossibleEnd(_, _ string) string { return "" }

func impossibleWire(_, _ string) string { return "" }

func impossiblePhase(_, _ string) string { return "" }
