package extender

import (
	"fmt"
	"strings"
	"unicode"
)

// Kind says how an extender failed; the values of the metrics' result.
type Kind string

const (
	// Answered: it did not fail.
	Answered Kind = "answered"
	// Unreachable: no connection, or one with whom nobody vouches for; or an
	// address that no extender has.
	Unreachable Kind = "unreachable"
	// Late: no answer, or not all of it, in time.
	Late Kind = "late"
	// Refused: another status than 200, a redirection among them.
	Refused Kind = "refused"
	// Garbled: an answer that is too long or not what was asked for.
	Garbled Kind = "garbled"
	// False: an answer that cannot be true.
	False Kind = "false"
	// Failed: the extender itself says that it failed.
	Failed Kind = "failed"
	// Crowded: too many requests have not come back.
	Crowded Kind = "crowded"
)

// Error says that an extender failed. Its text is read by whoever may read the
// pod, so it holds nothing of what is at the other end, and nothing of how the
// connection failed: an extender's address is no means to explore a network.
type Error struct {
	// Extender and Verb are who was asked what.
	Extender, Verb string
	Kind           Kind
	// Told is what may be told to everybody.
	Message string
	// Cause is for the log alone; may be nil.
	Cause error
}

func (e *Error) Error() string {
	return fmt.Sprintf("extender %q: %s: %s", e.Extender, e.Verb, e.Message)
}

// Bounds of what an extender says.
const (
	maxMessageBytes = 256
	maxReasons      = 16
)

// words makes what an extender says fit to be shown: short, and on one line.
func sanitizeMessage(said string) string {
	var b strings.Builder
	for _, r := range said {
		if b.Len() >= maxMessageBytes {
			return b.String() + "…"
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
