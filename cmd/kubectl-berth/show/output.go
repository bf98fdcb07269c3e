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

// wide is the format that the printers of cli-runtime do not know.
const formatWide = "wide"

// Output is the flag -o of a verb that prints objects.
type Output struct {
	flags *genericclioptions.PrintFlags
}

// NewOutput returns the flag, not set.
func NewOutput() *Output {
	return &Output{flags: genericclioptions.NewPrintFlags("")}
}

// AddFlags registers -o and what belongs to it.
func (o *Output) AddFlags(cmd *cobra.Command) {
	o.flags.AddFlags(cmd)
	cmd.Flag("output").Usage = "Output format. One of: (" + strings.Join(o.Formats(), ", ") + ")."
}

// Formats are those that -o takes.
func (o *Output) Formats() []string { return slices.Insert(o.flags.AllowedFormats(), 0, formatWide) }

// Wide says whether tables have all their columns.
func (o *Output) Wide() bool { return *o.flags.OutputFormat == formatWide }

// Name says whether names are printed, which are printed one by one.
func (o *Output) Name() bool { return *o.flags.OutputFormat == "name" }

// Printer returns what prints objects in the format that was asked for; nil
// where a table was. The error lists the formats.
func (o *Output) Printer() (func(runtime.Object, io.Writer) error, error) {
	if format := *o.flags.OutputFormat; o.Wide() || format == "" && *o.flags.TemplatePrinterFlags.TemplateArgument == "" {
		return nil, nil
	}
	printer, err := o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("-o: no format %q: it is one of %s", *o.flags.OutputFormat, strings.Join(o.Formats(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return printer.PrintObj, nil
}
