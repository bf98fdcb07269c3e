// Command flags writes docs/reference/flags.md from the code that defines the flags. Run it
// in the root of the module: go run ./tools/flags
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthdev/berth/operator"
)

// page is the path of the reference below the root.
var page = filepath.Join("docs", "reference", "flags.md")

const pageHeader = `# Flags

Generated from the code by ` + "`make generate`" + `: every flag of the manager, as in ` + "`manager --help`" + `.
The manager does not start with an invalid value; the error names the flag and the valid
values. Settings of a SchedulingProfile are not flags: see the
[reference of the resources](api.md).

| flag | default | description |
|---|---|---|
`

func main() {
	if err := os.WriteFile(page, []byte(reference(operator.Flags())), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		os.Exit(1)
	}
}

func reference(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString(pageHeader)
	flags.VisitAll(func(f *pflag.Flag) {
		value := "none"
		if f.DefValue != "" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}
