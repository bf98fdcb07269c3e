package show

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"
)

// Format is the flag -o of a verb whose output is not an object of the API server: json,
// yaml, or one of the text formats of the verb. Without a value the verb prints text.
type Format struct {
	name        string
	textFormats []string
}

// NewFormat returns the flag without a value. own are the text formats of the verb.
func NewFormat(own ...string) *Format { return &Format{textFormats: own} }

// All returns the values that -o accepts.
func (f *Format) All() []string { return append(slices.Clone(f.textFormats), "json", "yaml") }

// AddFlag registers -o. with names the flag that -o requires; empty for none.
func (f *Format) AddFlag(cmd *cobra.Command, with string) {
	usage := "Output format. One of: (" + strings.Join(f.All(), ", ") + ")."
	if with != "" {
		usage = "With " + with + ", the output format. One of: (" + strings.Join(f.All(), ", ") + ")."
	}
	cmd.Flags().StringVarP(&f.name, "output", "o", "", usage)
}

// Check returns an error if the value of -o is not supported.
func (f *Format) Check() error {
	if f.name == "" || slices.Contains(f.All(), f.name) {
		return nil
	}
	return fmt.Errorf("-o: unsupported output format %q: must be one of: %s", f.name, strings.Join(f.All(), ", "))
}

// Set reports whether -o was given.
func (f *Format) Set() bool { return f.name != "" }

// Is reports whether -o has this value.
func (f *Format) Is(name string) bool { return f.name == name }

// Structured reports whether the output is JSON or YAML.
func (f *Format) Structured() bool { return f.name == "json" || f.name == "yaml" }

// Print writes a value as JSON or YAML.
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

// formatWide is a format that the printers of cli-runtime do not have.
const formatWide = "wide"

// Output is the flag -o of a verb that prints objects of the API server.
type Output struct {
	flags *genericclioptions.PrintFlags
}

// NewOutput returns the flag without a value.
func NewOutput() *Output {
	return &Output{flags: genericclioptions.NewPrintFlags("")}
}

// AddFlags registers -o and the flags of its formats.
func (o *Output) AddFlags(cmd *cobra.Command) {
	o.flags.AddFlags(cmd)
	cmd.Flag("output").Usage = "Output format. One of: (" + strings.Join(o.Formats(), ", ") + ")."
}

// Formats returns the values that -o accepts.
func (o *Output) Formats() []string { return slices.Insert(o.flags.AllowedFormats(), 0, formatWide) }

// Wide reports whether tables show all their columns.
func (o *Output) Wide() bool { return *o.flags.OutputFormat == formatWide }

// Name reports whether only names are printed; objects are then printed one by one.
func (o *Output) Name() bool { return *o.flags.OutputFormat == "name" }

// Printer returns the function that prints objects in the chosen format, or nil for a table.
// The error lists the supported formats.
func (o *Output) Printer() (func(runtime.Object, io.Writer) error, error) {
	if format := *o.flags.OutputFormat; o.Wide() || format == "" && *o.flags.TemplatePrinterFlags.TemplateArgument == "" {
		return nil, nil
	}
	printer, err := o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("-o: unsupported output format %q: must be one of: %s", *o.flags.OutputFormat, strings.Join(o.Formats(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return printer.PrintObj, nil
}
