// Metrics writes docs/reference/metrics.md from the code that makes the metrics:
// go run ./tools/metrics, in the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// page is where the reference is, below the root.
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
