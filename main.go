// Command manager is Berth: a Kubernetes scheduler whose profiles are custom resources.
//
// A scheduler with out-of-tree plugins has a main.go like this one that registers them;
// see docs/plugins.md, and test/integration/outoftree for an example:
//
//	operator.Main(
//		plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)),
//	)
package main

import "github.com/berthdev/berth/operator"

func main() {
	operator.Main()
}
