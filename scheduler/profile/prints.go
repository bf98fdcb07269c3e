package profile

import (
	"fmt"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// prints says of each plugin of a Blueprint, in a text of no other meaning,
// where it stands and with which arguments: two plugins with the same print do
// the same.
func fingerprints(b *compile.Blueprint) map[string]string {
	all := map[string]string{}
	for _, point := range framework.Points {
		for _, entry := range b.Chains[point] {
			if _, known := all[entry.Name]; !known {
				all[entry.Name] = argumentsText(b, entry.Name)
			}
			all[entry.Name] += fmt.Sprintf(" %s:%d", point, entry.Weight)
		}
	}
	for _, e := range b.Extenders {
		all[framework.ExtenderPluginName(e.Name)] = extenderText(e)
	}
	return all
}

// extenderText is all that an extender is made of, as text.
func extenderText(e extender.Config) string { return fmt.Sprintf("%+v", e) }
