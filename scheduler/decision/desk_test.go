package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestDesk(t *testing.T) {
	for sentence, play := range map[string]func(c *counter){
		"the first explanation is written at once, and the same reasons are not written again": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.want("create web of web: cpu")
			c.pass(time.Hour)
			c.Put(says("web", "cpu", func(e *Explanation) { e.Status.Rejections[0].Nodes = 4 }))
			c.want()
		},
		"other reasons are written a minute after the ones before": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.want("create web of web: cpu")
			c.pass(updateEvery - time.Second)
			c.Put(says("web", "memory"))
			c.want()
			c.pass(time.Second)
			c.want("update web of web: memory")
		},
		"of several explanations that wait the last is written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Put(says("db", "cpu"))
			c.Put(says("web", "memory"))
			c.want("create web of web: memory", "create db of db: cpu")
		},
		"reasons that are again what the object says are not written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("web", "memory"))
			c.Put(says("web", "cpu"))
			c.pass(updateEvery)
			c.want()
		},
		"who was not explained yet goes before updates, and those before records": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("job", "", placed))
			c.Put(says("web", "memory"))
			c.Put(says("db", "cpu"))
			c.want("create db of db: cpu", "update web of web: memory", "create job of job: Bound")
		},
		"deletions take every other turn": func(c *counter) {
			for _, pod := range []string{"a", "b", "c"} {
				c.Put(says(pod, "cpu"))
			}
			c.errands()
			for _, pod := range []string{"a", "b", "c"} {
				c.Gone("shop", pod, types.UID(pod))
				c.Put(says(pod+"2", "cpu"))
			}
			c.want("delete a of a", "create a2 of a2: cpu", "delete b of b", "create b2 of b2: cpu", "delete c of c", "create c2 of c2: cpu")
		},
		"updates have their turns between deletions": func(c *counter) {
			for _, pod := range []string{"a", "b", "web"} {
				c.Put(says(pod, "cpu"))
			}
			c.errands()
			c.pass(updateEvery)
			c.Put(says("web", "memory"))
			c.Gone("shop", "a", "a")
			c.Gone("shop", "b", "b")
			c.want("delete a of a", "update web of web: memory", "delete b of b")
		},
		"a pod that is bound is explained no more, and what stands goes at once": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("web", "memory"))
			c.Put(says("db", "cpu"))
			c.Bound("shop", "web", "web")
			c.Bound("shop", "db", "db")
			c.Put(says("web", "late"))
			c.want("delete web of web")
		},
		"what explains bound pods goes before all else, which has each tenth turn": func(c *counter) {
			var want []string
			for i := range 20 {
				c.Put(says(fmt.Sprint("bound-", i), "cpu"))
			}
			c.errands()
			for i := range 20 {
				name := fmt.Sprint("bound-", i)
				c.Bound("shop", name, types.UID(name))
				c.Put(says(fmt.Sprint("new-", i), "cpu"))
			}
			for i := range 20 {
				if i == 9 || i == 18 {
					want = append(want, fmt.Sprintf("create new-%d of new-%[1]d: cpu", i/9-1))
				}
				want = append(want, fmt.Sprintf("delete bound-%d of bound-%[1]d", i))
			}
			if diff := cmp.Diff(want, c.errands()[:22]); diff != "" {
				c.t.Errorf("what is done first (-want +got):\n%s", diff)
			}
		},
		"a pod that is bound while it is written is deleted when that is done": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Bound("shop", "web", "web")
			c.do(e)
			c.want("delete web of web")
		},
		"what could not be written of a pod that is bound by now is not tried again, nor missed": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Bound("shop", "web", "web")
			c.Again(e, c.time, false)
			c.want()
			if len(c.dropped) > 0 {
				c.t.Errorf("dropped %q", c.dropped)
			}
		},
		"who was explained is recorded as soon as it is bound, in place of what is not true any more": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("db", "cpu"))
			c.Put(says("web", "", placed))
			c.Bound("shop", "web", "web")
			c.want("update web of web: Bound", "create db of db: cpu")
			c.pass(leaveAfter)
			c.want("delete web of web")
		},
		"of what is not true any more alone there is nothing else": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("db", "cpu"))
			c.Bound("shop", "web", "web")
			if e, _, ok := c.TakeOutdated(); !ok || !e.Outdated || c.do(e) != "delete web of web" {
				c.t.Errorf("took %v, %+v", ok, e)
			}
			if e, _, ok := c.TakeOutdated(); ok {
				c.t.Errorf("took %+v", e)
			}
			c.want("create db of db: cpu")
		},
		"a pod that is gone is forgotten, and what stands goes at once": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("db", "cpu"))
			c.Gone("shop", "db", "db")
			c.Gone("shop", "web", "web")
			c.Put(says("web", "late"))
			c.want("delete web of web")
		},
		"what is taken back goes at once, and may be told again": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Put(says("db", "cpu"))
			c.Unsay("shop", "db", "db")
			c.Unsay("shop", "web", "web")
			c.want("delete web of web")
			c.Put(says("web", "cpu"))
			c.Put(says("db", "cpu"))
			c.want("create web of web: cpu", "create db of db: cpu")
		},
		"what is told again before it went stays": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.Unsay("shop", "web", "web")
			c.Put(says("web", "cpu"))
			c.want()
		},
		"what is taken back while it is written is not tried again": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Unsay("shop", "web", "web")
			c.Again(e, c.time, false)
			c.want()
			c.Put(says("web", "cpu"))
			c.want("create web of web: cpu")
		},
		"a bound pod is recorded, and not for longer than a minute": func(c *counter) {
			c.Bound("shop", "web", "web")
			c.Put(says("web", "", placed))
			c.want("create web of web: Bound")
			c.pass(leaveAfter)
			c.want("delete web of web")
		},
		"a record that has no turn in its minute is dropped, and counted": func(c *counter) {
			c.Put(says("web", "", placed))
			c.pass(leaveAfter)
			c.want()
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"a pod's namesake has its object replaced, whether the first is known to be gone or not": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Put(says("db", "cpu"))
			c.errands()
			c.Gone("shop", "db", "db")
			c.Put(says("web", "cpu", of("web-2")))
			c.Put(says("db", "cpu", of("db-2")))
			c.Gone("shop", "web", "web")
			c.want("replace web of web-2: cpu", "replace db of db-2: cpu")
		},
		"a pod that is gone while it is written is deleted when that is done": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Gone("shop", "web", "web")
			c.do(e)
			c.want("delete web of web")
		},
		"what is put while it is written is an update": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(says("web", "memory"))
			c.do(e)
			c.want()
			c.pass(updateEvery)
			c.want("update web of web: memory")
		},
		"what is put while something else is written is written after it": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("web", "memory"))
			e, _, _ := c.Take()
			c.Put(says("web", "cpu"))
			c.do(e)
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
		"what failed is done again, and what may have been done is looked at": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Again(e, c.time.Add(time.Second), true)
			c.want()
			c.Gone("shop", "web", "web")
			c.want("delete web of ")
		},
		"what failed yields to what is newer": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(says("web", "memory"))
			c.Again(e, c.time, false)
			c.want("create web of web: memory")
		},
		"an update that may have been made is made again, whatever it says": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.errands()
			c.pass(updateEvery)
			c.Put(says("web", "memory"))
			e, _, _ := c.Take()
			c.Again(e, c.time, true)
			c.Put(says("web", "cpu"))
			c.want("update web of web: cpu")
		},
		"what is refused is counted, and tried again with other reasons only": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Refused(e)
			c.Put(says("web", "cpu"))
			c.want()
			c.Put(says("web", "memory"))
			c.want("create web of web: memory")
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"an errand about a pod that turned out to be gone is no errand": func(c *counter) {
			c.Put(says("web", "cpu"))
			e, _, _ := c.Take()
			c.Moot(e, false)
			c.want()
		},
		"what stood before is updated, a minute after it was written": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Written: c.time})
			c.want()
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
		"what stood before and is so still keeps its age": func(c *counter) {
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Written: c.time, Status: says("web", "cpu").Status})
			c.Found(Standing{Namespace: "shop", Pod: "db", Owner: "db", Object: "o", Written: c.time, Status: says("db", "cpu").Status})
			c.Put(says("web", "cpu"))
			c.Put(says("db", "memory"))
			c.pass(updateEvery)
			c.want("update db of db: memory")
			c.Put(says("web", "memory"))
			c.want("update web of web: memory")
		},
		"what stood before goes when its pod is gone or bound, and the record of a bind a minute after that": func(c *counter) {
			when := c.time.Add(-leaveAfter / 2)
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", Stale: true})
			c.Found(Standing{Namespace: "shop", Pod: "db", Owner: "db", Object: "o", Bound: when, Written: when.Add(-time.Second)})
			c.Found(Standing{Namespace: "shop", Pod: "job", Owner: "job", Object: "o", Bound: when, Written: when.Add(time.Second)})
			c.want("delete db of db", "delete web of old")
			c.pass(leaveAfter / 2)
			c.want("delete job of job")
		},
		"what stood before of a pod's namesake is replaced": func(c *counter) {
			c.Put(says("web", "cpu"))
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", Stale: true})
			c.want("replace web of web: cpu")
		},
		"a pod that was taken for gone and is not keeps its explanation": func(c *counter) {
			c.Found(Standing{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", Written: c.time, Stale: true})
			c.Put(says("web", "cpu"))
			c.pass(updateEvery)
			c.want("update web of web: cpu")
		},
	} {
		t.Run(sentence, func(t *testing.T) { play(newCounter(t)) })
	}
}
