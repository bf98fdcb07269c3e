// Command bundle writes Berth as a registry+v1 bundle for the Operator Lifecycle Manager,
// from the objects of `kubectl apply -k config/default`: `make bundle`.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", filepath.Join("..", ".."), "the `folder` of the operator's module")
	flag.StringVar(&o.out, "out", "", "the `folder` that gets bundle/ and bundle.Dockerfile; default: the root")
	flag.StringVar(&o.version, "version", "", "the bundle's `version`, 1.2.3; default: what the file VERSION says")
	flag.StringVar(&o.image, "image", "", "the manager's `image`; default: berth, with the version as its tag")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// options are the arguments. Only root is required.
type options struct{ root, out, version, image string }

// run writes the bundle and removes the files of an earlier one.
func run(o options) error {
	if o.out == "" {
		o.out = o.root
	}
	if o.version == "" {
		text, err := os.ReadFile(filepath.Join(o.root, "VERSION"))
		if err != nil {
			return err
		}
		o.version = strings.TrimSpace(string(text))
	}
	if o.image == "" {
		o.image = "berth:v" + o.version
	}
	from, err := read(o.root)
	if err != nil {
		return err
	}
	csv, err := from.csv(o.version, o.image)
	if err != nil {
		return err
	}
	return from.write(o.out, csv)
}
