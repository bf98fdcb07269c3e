package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// None stands where there is nothing to show, as in kubectl.
const None = "<none>"

// Age is how long ago something was.
func Age(then metav1.Time, now time.Time) string {
	if then.IsZero() {
		return None
	}
	return duration.HumanDuration(now.Sub(then.Time))
}

// OrNone is text, or None.
func OrNone(text string) string {
	if text == "" {
		return None
	}
	return text
}

// Count says how many there are of something whose plural has an s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Cut cuts text to at most limit characters.
func Truncate(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:limit-1]), " ") + "…"
}

// Wrap breaks text between words into lines that keep to Width, and begins each
// with indent, all but the first with more. A word that is longer has a line of
// its own.
func Wrap(text, indent, more string) string {
	var lines []string
	line, begun := indent, false
	for _, word := range strings.Split(text, " ") {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > Width {
			lines = append(lines, strings.TrimRight(line, " "))
			line, begun = indent+more, false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	return strings.Join(append(lines, line), "\n")
}

// Error prints why the plugin could not do what it was asked.
func Error(to io.Writer, err error) {
	fmt.Fprintln(to, Wrap("error: "+err.Error(), "", "  "))
}
