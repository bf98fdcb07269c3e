// Flags writes docs/reference/flags.md from the code that reads the flags:
// go run ./tools/flags, in the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthdev/berth/operator"
)

// page is where the reference is, below the root.
var page = filepath.Join("docs", "reference", "flags.md")

const pageHeader = `# Flags

Generated from the code by ` + "`make generate`" + `: every flag of the manager, as ` + "`manager --help`" + ` tells.
A value that cannot be is refused at the start, with the flag's name and what would be
right. What a SchedulingProfile says is no flag: it is in the
[reference of the resources](api.md).

| flag | default | what it says |
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
