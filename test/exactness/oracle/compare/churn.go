package compare

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// churn counts what happened between the attempts, by what was done to which
// kind: "apply Node".
type churn map[string]int

// moving are the kinds that must come, change and go.
var moving = []string{"Node", "Pod", "Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet"}

func (c churn) add(op log.Op) {
	if op.Kind != log.Schedule {
		c[string(op.Kind)+" "+reflect.TypeOf(op.Object).Elem().Name()]++
	}
}

func (c churn) sum(other churn) {
	for what, times := range other {
		c[what] += times
	}
}

func (c churn) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c[what]))
	}
	return strings.Join(parts, ", ")
}

// Still names what happened less often than least times.
func (c *Coverage) Still(least int) []string {
	var still []string
	for _, kind := range moving {
		for _, done := range []log.Kind{log.Apply, log.Delete} {
			if what := string(done) + " " + kind; c.churn[what] < least {
				still = append(still, fmt.Sprintf("%s happened %d times, want %d", what, c.churn[what], least))
			}
		}
	}
	return still
}
