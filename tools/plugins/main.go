// Plugins writes what the code says of each built-in plugin into its page,
// docs/plugins/NAME.md, and the list of them into docs/plugins/README.md:
// go run ./tools/plugins, in the root of the module. The rest of a page is written
// by hand.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// folder is where the pages are, below the root.
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
