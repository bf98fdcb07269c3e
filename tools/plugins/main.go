// Command plugins writes the generated part of the page of each built-in plugin,
// docs/plugins/NAME.md, and the table in docs/plugins/README.md. The other parts of a page
// are written by hand. Run it in the root of the module: go run ./tools/plugins
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// folder is the folder of the pages below the root.
var folder = filepath.Join("docs", "plugins")

func main() {
	pages, err := generatePages(context.Background(), ".")
	for path, text := range pages {
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plugins:", err)
		os.Exit(1)
	}
}
