package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// newOps returns schedule ops for pods p0, p1 and so on.
func newOps(length int) []log.Op {
	ops := make([]log.Op, length)
	for i := range ops {
		ops[i] = log.Op{Kind: log.Schedule, Object: fixture.Pod(fmt.Sprintf("p%d", i)).Obj()}
	}
	return ops
}

func TestShrinking(t *testing.T) {
	tests := map[string]struct {
		// culprits make ops fail at the last of them, if all are there.
		culprits []string
		want     string
	}{
		"one op":                                {culprits: []string{"p11"}, want: "p11"},
		"two distant ops":                       {culprits: []string{"p0", "p19"}, want: "p0 p19"},
		"neighbouring ops":                      {culprits: []string{"p6", "p7", "p8"}, want: "p6 p7 p8"},
		"ops that do not fail stay as they are": {culprits: []string{"unknown"}, want: "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19"},
		"ops after the failure are left out":    {culprits: []string{"p0"}, want: "p0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			small := Shrink(newOps(20), func(ops []log.Op) int {
				last := -1
				for _, culprit := range test.culprits {
					at := slices.IndexFunc(ops, func(op log.Op) bool { return op.Object.GetName() == culprit })
					if at < 0 {
						return -1
					}
					last = max(last, at)
				}
				return last
			})
			var names []string
			for _, op := range small {
				names = append(names, op.Object.GetName())
			}
			if diff := cmp.Diff(test.want, strings.Join(names, " ")); diff != "" {
				t.Errorf("shrunk ops (-want,+got):\n%s", diff)
			}
		})
	}
}
