// Command metrics writes docs/reference/metrics.md from the code that defines the metrics.
// Run it in the root of the module: go run ./tools/metrics
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is the path of the reference below the root.
var page = filepath.Join("docs", "reference", "metrics.md")

func main() {
	text, err := reference(".")
	if err == nil {
		err = os.WriteFile(page, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}
