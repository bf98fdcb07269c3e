package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/decision"
)

func TestQueue(t *testing.T) {
	for name, run := range map[string]func(c *queueTest){
		"the first explanation is written at once, and the same reasons are not written again": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.want("create web of web: cpu")
			c.advance(time.Hour)
			c.Put(explanationOf("web", "cpu", func(e *decision.Explanation) { e.Status.Rejections[0].Nodes = 4 }))
			c.want()
		},
		"other reasons are written a minute after the ones before": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.want("create web of web: cpu")
			c.advance(minUpdateInterval - time.Second)
			c.Put(explanationOf("web", "memory"))
			c.want()
			c.advance(time.Second)
			c.want("update web of web: memory")
		},
		"that a group is gated is written after five seconds, and what its first attempt finds at once": func(c *queueTest) {
			c.Put(explanationOf("web", "", ofGatedGroup))
			c.want()
			c.Put(explanationOf("web", "cpu"))
			c.want("create web of web: cpu")
			c.Put(explanationOf("db", "", ofGatedGroup))
			c.advance(gatedGroupDelay - time.Second)
			c.Put(explanationOf("db", "", ofGatedGroup, func(e *decision.Explanation) { e.Status.Message += ", again" }))
			c.want()
			c.advance(time.Second)
			c.want("create db of db: Gated")
		},
		"of several explanations that wait the last is written": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.Put(explanationOf("db", "cpu"))
			c.Put(explanationOf("web", "memory"))
			c.want("create web of web: memory", "create db of db: cpu")
		},
		"reasons that the object already has are not written": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("web", "memory"))
			c.Put(explanationOf("web", "cpu"))
			c.advance(minUpdateInterval)
			c.want()
		},
		"a first explanation comes before updates, and updates before bound pods": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.advance(minUpdateInterval)
			c.Put(explanationOf("job", "", asBound))
			c.Put(explanationOf("web", "memory"))
			c.Put(explanationOf("db", "cpu"))
			c.want("create db of db: cpu", "update web of web: memory", "create job of job: Bound")
		},
		"every other task is a deletion": func(c *queueTest) {
			for _, pod := range []string{"a", "b", "c"} {
				c.Put(explanationOf(pod, "cpu"))
			}
			c.doTasks()
			for _, pod := range []string{"a", "b", "c"} {
				c.PodDeleted("shop", pod, types.UID(pod))
				c.Put(explanationOf(pod+"2", "cpu"))
			}
			c.want("delete a of a", "create a2 of a2: cpu", "delete b of b", "create b2 of b2: cpu", "delete c of c", "create c2 of c2: cpu")
		},
		"updates come between deletions": func(c *queueTest) {
			for _, pod := range []string{"a", "b", "web"} {
				c.Put(explanationOf(pod, "cpu"))
			}
			c.doTasks()
			c.advance(minUpdateInterval)
			c.Put(explanationOf("web", "memory"))
			c.PodDeleted("shop", "a", "a")
			c.PodDeleted("shop", "b", "b")
			c.want("delete a of a", "update web of web: memory", "delete b of b")
		},
		"a bound pod is explained no more, and its object is deleted at once": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("web", "memory"))
			c.Put(explanationOf("db", "cpu"))
			c.PodBound("shop", "web", "web")
			c.PodBound("shop", "db", "db")
			c.Put(explanationOf("web", "late"))
			c.want("delete web of web")
		},
		"objects of bound pods are deleted before all else, which gets each tenth task": func(c *queueTest) {
			var want []string
			for i := range 20 {
				c.Put(explanationOf(fmt.Sprint("bound-", i), "cpu"))
			}
			c.doTasks()
			for i := range 20 {
				name := fmt.Sprint("bound-", i)
				c.PodBound("shop", name, types.UID(name))
				c.Put(explanationOf(fmt.Sprint("new-", i), "cpu"))
			}
			for i := range 20 {
				if i == 9 || i == 18 {
					want = append(want, fmt.Sprintf("create new-%d of new-%[1]d: cpu", i/9-1))
				}
				want = append(want, fmt.Sprintf("delete bound-%d of bound-%[1]d", i))
			}
			if diff := cmp.Diff(want, c.doTasks()[:22]); diff != "" {
				c.t.Errorf("first tasks (-want +got):\n%s", diff)
			}
		},
		"an object whose pod is bound during the write is deleted after it": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.PodBound("shop", "web", "web")
			c.doTask(e)
			c.want("delete web of web")
		},
		"a failed write is not repeated once the pod is bound, and does not count as dropped": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.PodBound("shop", "web", "web")
			c.Retry(e, c.time, false)
			c.want()
			if len(c.dropped) > 0 {
				c.t.Errorf("dropped %q", c.dropped)
			}
		},
		"the record of a bind replaces the pod's outdated explanation at once": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("db", "cpu"))
			c.Put(explanationOf("web", "", asBound))
			c.PodBound("shop", "web", "web")
			c.want("update web of web: Bound", "create db of db: cpu")
			c.advance(boundRetention)
			c.want("delete web of web")
		},
		"TakeOutdated returns outdated objects only": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("db", "cpu"))
			c.PodBound("shop", "web", "web")
			if e, _, ok := c.TakeOutdated(); !ok || !e.Outdated || c.doTask(e) != "delete web of web" {
				c.t.Errorf("took %v, %+v", ok, e)
			}
			if e, _, ok := c.TakeOutdated(); ok {
				c.t.Errorf("took %+v", e)
			}
			c.want("create db of db: cpu")
		},
		"a deleted pod is forgotten, and its object is deleted at once": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("db", "cpu"))
			c.PodDeleted("shop", "db", "db")
			c.PodDeleted("shop", "web", "web")
			c.Put(explanationOf("web", "late"))
			c.want("delete web of web")
		},
		"a withdrawn explanation is deleted at once, and may be written again": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("db", "cpu"))
			c.Withdraw("shop", "db", "db")
			c.Withdraw("shop", "web", "web")
			c.want("delete web of web")
			c.Put(explanationOf("web", "cpu"))
			c.Put(explanationOf("db", "cpu"))
			c.want("create web of web: cpu", "create db of db: cpu")
		},
		"a pod that passes its scheduling cycle is explained no more, a little later": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Put(explanationOf("db", "cpu"))
			c.Passed("shop", "web", "web")
			c.Passed("shop", "db", "db")
			c.Passed("shop", "never-explained", "never-explained")
			c.want()
			c.advance(minUpdateInterval - time.Second)
			c.want()
			c.advance(time.Second)
			c.want("delete web of web")
			c.Put(explanationOf("web", "cpu"))
			c.want("create web of web: cpu")
		},
		"a pod that was explained a minute ago and passes is explained no more after five seconds": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.advance(minUpdateInterval)
			c.Passed("shop", "web", "web")
			c.want()
			c.advance(passedDelay)
			c.want("delete web of web")
		},
		"a pod that passes and fails as before each ten seconds needs no write for a minute": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			for range 5 {
				c.Passed("shop", "web", "web")
				c.advance(passedDelay)
				c.want()
				c.advance(passedDelay)
				c.Put(explanationOf("web", "cpu"))
				c.want()
			}
		},
		"a pod that passes and fails as before at once needs no write": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Passed("shop", "web", "web")
			c.Put(explanationOf("web", "cpu"))
			c.advance(passedDelay)
			c.want()
		},
		"the object of a pod that passes and is bound is deleted once, at once": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Passed("shop", "web", "web")
			c.PodBound("shop", "web", "web")
			c.want("delete web of web")
			c.advance(passedDelay)
			c.want()
		},
		"an explanation of an earlier process that is withdrawn before it is known is deleted": func(c *queueTest) {
			c.Withdraw("shop", "web", "web")
			c.Withdraw("shop", "db", "db")
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "web-object", WrittenAt: c.time})
			c.want("delete web of web")
			if len(c.records) > 0 {
				c.t.Errorf("%d records are left", len(c.records))
			}
		},
		"an explanation that is put again before its deletion stays": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.Withdraw("shop", "web", "web")
			c.Put(explanationOf("web", "cpu"))
			c.want()
		},
		"a failed write of a withdrawn explanation is not repeated": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Withdraw("shop", "web", "web")
			c.Retry(e, c.time, false)
			c.want()
			c.Put(explanationOf("web", "cpu"))
			c.want("create web of web: cpu")
		},
		"the record of a bound pod is kept for one minute": func(c *queueTest) {
			c.PodBound("shop", "web", "web")
			c.Put(explanationOf("web", "", asBound))
			c.want("create web of web: Bound")
			c.advance(boundRetention)
			c.want("delete web of web")
		},
		"a record that is not written within a minute is dropped and counted": func(c *queueTest) {
			c.Put(explanationOf("web", "", asBound))
			c.advance(boundRetention)
			c.want()
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"a new pod of the same name replaces the object, whether or not the old one is known to be deleted": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.Put(explanationOf("db", "cpu"))
			c.doTasks()
			c.PodDeleted("shop", "db", "db")
			c.Put(explanationOf("web", "cpu", withUID("web-2")))
			c.Put(explanationOf("db", "cpu", withUID("db-2")))
			c.PodDeleted("shop", "web", "web")
			c.want("replace web of web-2: cpu", "replace db of db-2: cpu")
		},
		"an object whose pod is deleted during the write is deleted after it": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.PodDeleted("shop", "web", "web")
			c.doTask(e)
			c.want("delete web of web")
		},
		"an explanation that is put during the write is an update": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(explanationOf("web", "memory"))
			c.doTask(e)
			c.want()
			c.advance(minUpdateInterval)
			c.want("update web of web: memory")
		},
		"an explanation that is put during another write is written after it": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.advance(minUpdateInterval)
			c.Put(explanationOf("web", "memory"))
			e, _, _ := c.Take()
			c.Put(explanationOf("web", "cpu"))
			c.doTask(e)
			c.advance(minUpdateInterval)
			c.want("update web of web: cpu")
		},
		"an object that an unsure write may have created is deleted without a known owner": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Retry(e, c.time.Add(time.Second), true)
			c.want()
			c.PodDeleted("shop", "web", "web")
			c.want("delete web of ")
		},
		"a newer explanation replaces one whose write failed": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Put(explanationOf("web", "memory"))
			c.Retry(e, c.time, false)
			c.want("create web of web: memory")
		},
		"an update that may have succeeded is repeated, whatever its reasons": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.doTasks()
			c.advance(minUpdateInterval)
			c.Put(explanationOf("web", "memory"))
			e, _, _ := c.Take()
			c.Retry(e, c.time, true)
			c.Put(explanationOf("web", "cpu"))
			c.want("update web of web: cpu")
		},
		"a rejected explanation counts as dropped, and is tried again with other reasons only": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Rejected(e)
			c.Put(explanationOf("web", "cpu"))
			c.want()
			c.Put(explanationOf("web", "memory"))
			c.want("create web of web: memory")
			if diff := cmp.Diff([]string{"batch"}, c.dropped); diff != "" {
				c.t.Errorf("dropped (-want +got):\n%s", diff)
			}
		},
		"an obsolete task leaves nothing to do": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			e, _, _ := c.Take()
			c.Obsolete(e, false)
			c.want()
		},
		"an existing object is updated one minute after it was written": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", WrittenAt: c.time})
			c.want()
			c.advance(minUpdateInterval)
			c.want("update web of web: cpu")
		},
		"an existing object with the same reasons is not written again": func(c *queueTest) {
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", WrittenAt: c.time, Status: explanationOf("web", "cpu").Status})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "db", Owner: "db", Object: "o", WrittenAt: c.time, Status: explanationOf("db", "cpu").Status})
			c.Put(explanationOf("web", "cpu"))
			c.Put(explanationOf("db", "memory"))
			c.advance(minUpdateInterval)
			c.want("update db of db: memory")
			c.Put(explanationOf("web", "memory"))
			c.want("update web of web: memory")
		},
		"an existing object is deleted when its pod is deleted or bound, and the record of a bind a minute later": func(c *queueTest) {
			when := c.time.Add(-boundRetention / 2)
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", PodDeleted: true})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "db", Owner: "db", Object: "o", BoundAt: when, WrittenAt: when.Add(-time.Second)})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "job", Owner: "job", Object: "o", BoundAt: when, Status: explanationOf("job", "", asBound).Status})
			c.want("delete db of db", "delete web of old")
			c.advance(boundRetention / 2)
			c.want("delete job of job")
		},
		"an existing object of an earlier pod of that name is replaced": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "old", Object: "o", PodDeleted: true})
			c.want("replace web of web: cpu")
		},
		"an object that says why its pod waits is deleted at once, although it was written after the bind": func(c *queueTest) {
			c.AddExisting(ExistingObject{
				Namespace: "shop", Pod: "web", Owner: "web", Object: "o", BoundAt: c.time.Add(-time.Second), WrittenAt: c.time, Status: explanationOf("web", "cpu").Status,
			})
			c.want("delete web of web")
		},
		"an object that an earlier leader sent and that arrives late is deleted": func(c *queueTest) {
			c.Put(explanationOf("again", "cpu", withUID("again-2")))
			e, _, _ := c.Take()
			c.Rejected(e)
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "waiting", Owner: "waiting", Object: "o1", WrittenAt: c.time})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "bound", Owner: "bound", Object: "o2", WrittenAt: c.time, BoundAt: c.time.Add(-time.Second)})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "gone", Owner: "gone", Object: "o3", WrittenAt: c.time, PodDeleted: true})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "again", Owner: "again", Object: "o4", WrittenAt: c.time, PodDeleted: true})
			c.want("delete bound of bound", "delete waiting of waiting", "delete gone of gone", "delete again of again")
			if len(c.records) > 0 {
				c.t.Errorf("%d records are left", len(c.records))
			}
			c.Put(explanationOf("waiting", "cpu"))
			c.Put(explanationOf("again", "cpu", withUID("again-2")))
			c.want("create waiting of waiting: cpu", "create again of again-2: cpu")
		},
		"an object that arrives late is updated by an explanation that is to be written": func(c *queueTest) {
			c.want()
			c.Put(explanationOf("web", "cpu"))
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", WrittenAt: c.time})
			c.advance(minUpdateInterval)
			c.want("update web of web: cpu")
		},
		"an object that is known stays when it is added again": func(c *queueTest) {
			c.Put(explanationOf("web", "cpu"))
			c.Put(explanationOf("job", "", asBound))
			c.doTasks()
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "object-of-web", WrittenAt: c.time})
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "job", Owner: "job", Object: "object-of-job", WrittenAt: c.time, BoundAt: c.time})
			c.Put(explanationOf("web", "cpu"))
			c.want()
		},
		"an object whose pod wrongly counted as deleted is updated": func(c *queueTest) {
			c.AddExisting(ExistingObject{Namespace: "shop", Pod: "web", Owner: "web", Object: "o", WrittenAt: c.time, PodDeleted: true})
			c.Put(explanationOf("web", "cpu"))
			c.advance(minUpdateInterval)
			c.want("update web of web: cpu")
		},
	} {
		t.Run(name, func(t *testing.T) { run(newQueueTest(t)) })
	}
}

// Were the times of an earlier process's objects those of the wall clock, their updates and
// deletions would not come due while it is set back.
func TestTimesOfAnEarlierProcessBecomeMonotonic(t *testing.T) {
	c, now := newQueueTest(t), time.Now()
	c.time = now
	for pod, age := range map[string]time.Duration{"old": 30 * time.Second, "new": 0, "by a clock that is ahead": -time.Hour} {
		at := now.Add(-age).Round(0) // Round drops a monotonic clock, as the API server does
		c.AddExisting(ExistingObject{Namespace: "shop", Pod: pod, Owner: "web", Object: "o", WrittenAt: at})
		c.AddExisting(ExistingObject{Namespace: "shop", Pod: pod + " bound", Owner: "job", Object: "o", BoundAt: at, Status: explanationOf("job", "", asBound).Status})
		c.Put(explanationOf(pod, "cpu", withUID("web")))
		update, deletion := c.records[types.NamespacedName{Namespace: "shop", Name: pod}].pending, c.records[types.NamespacedName{Namespace: "shop", Name: pod + " bound"}].deletion
		for _, from := range []time.Time{update.due.Add(-minUpdateInterval), deletion.due.Add(-boundRetention)} {
			if from == from.Round(0) {
				t.Errorf("%s: %v has no monotonic clock", pod, from)
			}
			if got := now.Sub(from); got != max(0, age) {
				t.Errorf("%s: counted from %v ago, want %v", pod, got, age)
			}
		}
	}
}
