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
	"k8s.io/cli-runtime/pkg/printers"
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

// Output is the flag -o of a verb that prints objects of the API server. It has kubectl's
// formats, except for go-template: package text/template calls methods by name, and the linker
// then keeps every method of every type, which makes the program half as large again.
type Output struct {
	format   string
	objects  *genericclioptions.JSONYamlPrintFlags
	names    *genericclioptions.NamePrintFlags
	jsonPath *genericclioptions.JSONPathPrintFlags
}

// NewOutput returns the flag without a value.
func NewOutput() *Output {
	return &Output{
		objects:  genericclioptions.NewJSONYamlPrintFlags(),
		names:    genericclioptions.NewNamePrintFlags(""),
		jsonPath: genericclioptions.NewJSONPathPrintFlags("", true),
	}
}

// AddFlags registers -o and the flags of its formats.
func (o *Output) AddFlags(cmd *cobra.Command) {
	o.objects.AddFlags(cmd)
	o.jsonPath.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: ("+strings.Join(o.Formats(), ", ")+").")
}

// Formats returns the values that -o accepts.
func (o *Output) Formats() []string {
	return slices.Concat([]string{formatWide}, o.objects.AllowedFormats(), o.names.AllowedFormats(), o.jsonPath.AllowedFormats())
}

// Wide reports whether tables show all their columns.
func (o *Output) Wide() bool { return o.format == formatWide }

// Name reports whether only names are printed; objects are then printed one by one.
func (o *Output) Name() bool { return o.format == "name" }

// Printer returns the function that prints objects in the chosen format, or nil for a table.
// The error lists the supported formats.
func (o *Output) Printer() (func(runtime.Object, io.Writer) error, error) {
	if o.format == "" || o.Wide() {
		return nil, nil
	}
	for _, toPrinter := range []func(string) (printers.ResourcePrinter, error){o.objects.ToPrinter, o.names.ToPrinter, o.jsonPath.ToPrinter} {
		printer, err := toPrinter(o.format)
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return printer.PrintObj, nil
	}
	return nil, fmt.Errorf("-o: unsupported output format %q: must be one of: %s", o.format, strings.Join(o.Formats(), ", "))
}
