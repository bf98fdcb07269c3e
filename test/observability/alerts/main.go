// Command alerts is Berth with plugins that go wrong in each way that an alert
// tells of.
package main

import (
	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/plugins"
)

func main() {
	operator.Main(
		plugins.Register("Panics", build(panics{}), (*panics)(nil), nil),
		plugins.Register("Slow", build(slow{}), (*slow)(nil), nil),
		plugins.Register("Deaf", build(deaf{}), (*deaf)(nil), nil),
		plugins.Register("Liar", build(&liar{}), (*liar)(nil), nil),
		plugins.Register("Sleeper", build(&sleeper{}), (*sleeper)(nil), nil),
	)
}
