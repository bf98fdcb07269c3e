package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

var recordTour = flag.String("record-tour", "", "write the commands of docs/tour/README.md and what they print as an asciicast to this `file`")

// The size of the recorded terminal, with lines that can be read on a telephone.
const (
	recordingColumns = 64
	recordingRows    = 22
)

// recording is a terminal session in the format asciicast v2. Its clock is made up: a command
// is typed at an even speed, and what it prints comes after the time that it took, up to
// maxCommandTime.
type recording struct {
	at     time.Duration
	events []any
}

const (
	typingTime     = 25 * time.Millisecond // for each character
	pauseToRead    = 700 * time.Millisecond
	pauseForLine   = 120 * time.Millisecond // for each line of output
	maxCommandTime = 1500 * time.Millisecond
)

// print adds text to the terminal.
func (r *recording) print(text string) {
	r.events = append(r.events, []any{r.at.Seconds(), "o", strings.ReplaceAll(text, "\n", "\r\n")})
}

// comment adds a line that says what comes next.
func (r *recording) comment(text string) {
	if r == nil || text == "" {
		return
	}
	r.print("\x1b[36m# " + text + "\x1b[0m\n")
	r.at += pauseToRead
}

// command adds a command and what it printed.
func (r *recording) command(text, output string, took time.Duration) {
	if r == nil {
		return
	}
	r.print("\x1b[32m$\x1b[0m ")
	r.at += pauseToRead
	for _, c := range strings.ReplaceAll(text, "\n", "\n> ") {
		r.print("\x1b[1m" + string(c) + "\x1b[0m")
		r.at += typingTime
	}
	r.at += pauseToRead
	r.print("\n")
	r.at += min(took, maxCommandTime)
	r.print(output)
	r.at += pauseToRead + time.Duration(strings.Count(output, "\n"))*pauseForLine
}

// write writes the recording to a file.
func (r *recording) write(file, title string) error {
	r.at += 3 * time.Second
	r.print("\x1b[32m$\x1b[0m ")
	var text strings.Builder
	lines := append([]any{map[string]any{"version": 2, "width": recordingColumns, "height": recordingRows, "title": title}}, r.events...)
	for _, line := range lines {
		encoded, err := json.Marshal(line)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s\n", encoded)
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// introductions are the sentences before a block of commands, from the end of the last block,
// heading or paragraph.
var introductions = regexp.MustCompile(`(?s)(?:\A|\n\n)([^\n#` + "`" + `][^` + "`" + `]*?):\n\n\z`)

// introduction returns the sentence of a page that ends, with a colon, where a block begins;
// empty if there is none.
func introduction(before string) string {
	found := introductions.FindStringSubmatch(before)
	if found == nil {
		return ""
	}
	paragraph := found[1][strings.LastIndex(found[1], "\n\n")+1:]
	return strings.Join(strings.Fields(paragraph), " ")
}
