package explain

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// FuzzExisting reads any SchedulingDecision that an earlier process, of another version and
// with another clock, left. The pod is explained all the same, at the latest after
// minUpdateInterval. Once the pod is gone the object is deleted and nothing is left of it.
func FuzzExisting(f *testing.F) {
	text, err := json.Marshal(explanationOf("web", "cpu").Status)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, int64(-60), int64(0), false, true)
	f.Add([]byte(`{"result":"Bound","profile":{"name":"batch"}}`), int64(-5), int64(-10), false, true)
	f.Add([]byte(`{"result":"Gated","group":{"name":"train"},"rejections":[{}]}`), int64(9223372036), int64(0), true, false)
	f.Add([]byte(`{}`), int64(-1<<40), int64(1<<40), false, false)
	f.Fuzz(func(t *testing.T, text []byte, written, bound int64, deleted, own bool) {
		var status v1alpha1.SchedulingDecisionStatus
		if len(text) > 8<<10 || json.Unmarshal(text, &status) != nil {
			return
		}
		c := newQueueTest(t)
		o := ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Status: status, PodDeleted: deleted}
		if !own {
			o.Owner = types.UID("an-earlier-web")
		}
		o.WrittenAt = c.time.Add(time.Duration(written%(1<<33)) * time.Second)
		if bound != 0 {
			o.BoundAt = c.time.Add(time.Duration(bound%(1<<33)) * time.Second)
		}
		c.AddExisting(o)
		first := c.doTasks()
		e := explanationOf("web", "cpu")
		known := own && reasonsOf(&status) == reasonsOf(&e.Status)
		wanted := own && !deleted && bound == 0 && !known || !own
		c.Put(e)
		c.advance(minUpdateInterval)
		if after := c.doTasks(); wanted && len(after) == 0 {
			t.Fatalf("the pod is not explained: %v, then %v; status %s", first, after, text)
		}
		c.PodDeleted("shop", "web", "web")
		c.PodDeleted("shop", "web", o.Owner)
		c.advance(boundRetention)
		c.doTasks()
		if len(c.records) > 0 || c.len() > 0 {
			t.Fatalf("%d records and %d items are left of %+v", len(c.records), c.len(), o)
		}
	})
}
