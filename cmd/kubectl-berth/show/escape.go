package show

import (
	"bytes"
	"fmt"
	"io"
)

// Escaped returns a writer that replaces control characters, except for ends of lines and
// tabs, by what a terminal shows, as kubectl does. Users may write texts that are printed, such
// as annotations of pods, and a terminal would act on an escape sequence in them.
func Escaped(to io.Writer) io.Writer { return &escapedWriter{to: to} }

type escapedWriter struct {
	to io.Writer
	// last is the last byte of the text so far.
	last byte
}

// Write writes text with its control characters replaced, and returns the length of text.
func (w *escapedWriter) Write(text []byte) (int, error) {
	plain := make([]byte, 0, len(text))
	for _, b := range text {
		switch {
		case b == '\n' || b == '\t':
			plain = append(plain, b)
		case b == '\r':
			plain = append(plain, `\r`...)
		case b < ' ':
			plain = append(plain, '^', b+'@')
		case b == 0x7f:
			plain = append(plain, "^?"...)
		case w.last == 0xc2 && b >= 0x80 && b < 0xa0: // the second byte of U+0080 to U+009F
			plain = fmt.Appendf(bytes.TrimSuffix(plain, []byte{0xc2}), `\u%04x`, b)
		default:
			plain = append(plain, b)
		}
		w.last = b
	}
	if _, err := w.to.Write(plain); err != nil {
		return 0, err
	}
	return len(text), nil
}
