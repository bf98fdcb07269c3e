// Command scheduler is Berth with out-of-tree plugins. It needs nothing but this module
// and Berth's.
package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/integration/outoftree/balance"
	"github.com/berthdev/berth/test/integration/outoftree/clearance"
	"github.com/berthdev/berth/test/integration/outoftree/coscheduling"
)

func main() {
	operator.Main(
		plugins.Register(coscheduling.Name, coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil),
			plugins.WithDefault(coscheduling.Default)),
		plugins.Register(clearance.Name, clearance.New, (*clearance.Plugin)(nil), (*runtime.Unknown)(nil)),
		plugins.Register(balance.Name, balance.New, (*balance.Plugin)(nil), nil),
	)
}
