package show

import (
	"strings"
	"testing"
)

func TestControlCharactersAreReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		written []string
		want    string
	}{
		"text is unchanged, also beyond ASCII":       {[]string{"ü 5\u00a0%\tx\n"}, "ü 5\u00a0%\tx\n"},
		"an escape sequence":                         {[]string{"\x1b[2J"}, "^[[2J"},
		"a carriage return, as kubectl replaces it":  {[]string{"a\rb"}, `a\rb`},
		"other control characters of ASCII":          {[]string{"a\x00\x07\x7f"}, "a^@^G^?"},
		"a control character of C1":                  {[]string{"a\u009b31m"}, `a\u009b31m`},
		"a control character of C1 in two calls":     {[]string{"a\xc2", "\x9b31m"}, "a\xc2" + `\u009b31m`},
		"a byte that is no character is unchanged":   {[]string{"\xff"}, "\xff"},
		"an escape sequence that begins a new write": {[]string{"a", "\x1bc"}, "a^[c"},
	} {
		t.Run(name, func(t *testing.T) {
			var printed strings.Builder
			w := Escaped(&printed)
			for _, text := range c.written {
				if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("wrote %d bytes of %d (%v)", n, len(text), err)
				}
			}
			if printed.String() != c.want {
				t.Errorf("got %q, want %q", printed.String(), c.want)
			}
		})
	}
}
