// Command manager is Berth: a scheduler whose profiles are custom resources.
//
// A scheduler with plugins of its own is this file with more in it; see
// docs/plugins.md, and test/foreign, which is one:
//
//	operator.Main(
//		plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)),
//	)
package main

import "github.com/berthdev/berth/operator"

func main() {
	operator.Main()
}
