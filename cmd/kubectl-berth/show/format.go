package show

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Format is the flag -o of a verb that prints values which are no object of the API
// server: "json", "yaml", or one of the verb's own for text. The empty one is text.
type Format struct {
	name        string
	textFormats []string
}

// NewFormat returns the flag, not set. own are the verb's formats of text.
func NewFormat(own ...string) *Format { return &Format{textFormats: own} }

// All are the formats that -o takes.
func (f *Format) All() []string { return append(slices.Clone(f.textFormats), "json", "yaml") }

// AddFlag registers -o, which is for values of what is named; nothing: for all.
func (f *Format) AddFlag(cmd *cobra.Command, with string) {
	usage := "Output format. One of: (" + strings.Join(f.All(), ", ") + ")."
	if with != "" {
		usage = "With " + with + ", the output format. One of: (" + strings.Join(f.All(), ", ") + ")."
	}
	cmd.Flags().StringVarP(&f.name, "output", "o", "", usage)
}

// Check says what is wrong with the value of -o.
func (f *Format) Check() error {
	if f.name == "" || slices.Contains(f.All(), f.name) {
		return nil
	}
	return fmt.Errorf("-o: no format %q: it is one of %s", f.name, strings.Join(f.All(), ", "))
}

// Set says whether -o was given.
func (f *Format) Set() bool { return f.name != "" }

// Is says whether -o has this value.
func (f *Format) Is(name string) bool { return f.name == name }

// Structured says whether a value is printed, not text.
func (f *Format) Structured() bool { return f.name == "json" || f.name == "yaml" }

// Print prints a value as JSON or YAML.
func (f *Format) Print(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "    ")
	if f.name == "yaml" {
		text, err = yaml.Marshal(value)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
	return err
}
