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

// None is printed for a missing value, as by kubectl.
const None = "<none>"

// Age returns how long before now then was, as kubectl prints ages; None for the zero time.
func Age(then metav1.Time, now time.Time) string {
	if then.IsZero() {
		return None
	}
	return duration.HumanDuration(now.Sub(then.Time))
}

// OrNone returns text, or None if it is empty.
func OrNone(text string) string {
	if text == "" {
		return None
	}
	return text
}

// Count returns a number with a noun in singular or plural. The plural must end in s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Truncate shortens text to at most limit characters and joins its lines.
func Truncate(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:limit-1]), " ") + "…"
}

// Wrap breaks text between words into lines of at most Width characters. Each line begins
// with indent, each but the first with more in addition. A word that is longer than a line
// gets a line of its own.
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

// Error prints an error as the plugin reports it.
func Error(to io.Writer, err error) {
	fmt.Fprintln(to, Wrap("error: "+err.Error(), "", "  "))
}
