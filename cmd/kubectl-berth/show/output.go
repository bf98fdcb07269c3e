package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

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
