package framework_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestEventObjects(t *testing.T) {
	node := fixture.Node("n1").Obj()
	for name, c := range map[string]struct {
		before, after       any
		wantBefore, wantAft *v1.Node
		wantErr             string
	}{
		"an addition has no object before": {after: node, wantAft: node},
		"a deletion has no object after":   {before: node, wantBefore: node},
		"an update has both":               {before: node, after: node, wantBefore: node, wantAft: node},
		"a missed deletion has the last known state": {
			before: cache.DeletedFinalStateUnknown{Key: "n1", Obj: node}, wantBefore: node,
		},
		"another kind is an error": {after: fixture.Pod("a").Obj(), wantErr: "a *v1.Pod, want a *v1.Node"},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, err := framework.EventObjects[*v1.Node](c.before, c.after)
			if before != c.wantBefore || after != c.wantAft {
				t.Errorf("objects %v and %v, want %v and %v", before, after, c.wantBefore, c.wantAft)
			}
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("error %v, want one with %q", err, c.wantErr)
			}
		})
	}
}
