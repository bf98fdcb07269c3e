package framework_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestEventObjects(t *testing.T) {
	node := fixture.Node("n1").Obj()
	for name, c := range map[string]struct {
		before, after       any
		wantBefore, wantAft *v1.Node
		wantErr             string
	}{
		"an add event has no old object":   {after: node, wantAft: node},
		"a delete event has no new object": {before: node, wantBefore: node},
		"an update event has both":         {before: node, after: node, wantBefore: node, wantAft: node},
		"a missed delete event has the last known state": {
			before: cache.DeletedFinalStateUnknown{Key: "n1", Obj: node}, wantBefore: node,
		},
		"an object of another type is an error": {after: fixture.Pod("a").Obj(), wantErr: "a *v1.Pod, want a *v1.Node"},
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
