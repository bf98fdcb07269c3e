package log

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/test/fixture"
)

// history is so many ops about pods p0, p1 and on.
func newOps(length int) []Op {
	ops := make([]Op, length)
	for i := range ops {
		ops[i] = Op{Kind: Schedule, Object: fixture.Pod(fmt.Sprintf("p%d", i)).Obj()}
	}
	return ops
}

func TestShrinking(t *testing.T) {
	tests := map[string]struct {
		// culprits break a history that holds all of them, at the last one.
		culprits []string
		want     string
	}{
		"one op is enough":                     {culprits: []string{"p11"}, want: "p11"},
		"two that are far from each other":     {culprits: []string{"p0", "p19"}, want: "p0 p19"},
		"some that stand together":             {culprits: []string{"p6", "p7", "p8"}, want: "p6 p7 p8"},
		"a history that is right stays whole":  {culprits: []string{"nobody"}, want: "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19"},
		"what comes after the fault is let go": {culprits: []string{"p0"}, want: "p0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			small := Shrink(newOps(20), func(ops []Op) int {
				last := -1
				for _, culprit := range test.culprits {
					at := slices.IndexFunc(ops, func(op Op) bool { return op.Object.GetName() == culprit })
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
				t.Errorf("what is left (-want,+got):\n%s", diff)
			}
		})
	}
}
