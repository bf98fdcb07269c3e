package framework

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSpanText(t *testing.T) {
	for sentence, c := range map[string]struct{ text, want string }{
		"what is well is kept":             {"0/2 nodes", "0/2 nodes"},
		"what is not UTF-8 is replaced":    {"not \xff UTF-8", "not \uFFFD UTF-8"},
		"what is long is cut":              {strings.Repeat("x", 2000), strings.Repeat("x", 1024)},
		"not within a character, or it is": {strings.Repeat("x", 1023) + "ä", strings.Repeat("x", 1023) + "\uFFFD"},
	} {
		if got := SpanText(c.text); got != c.want || !utf8.ValidString(got) {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}
