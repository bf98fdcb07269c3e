package explain

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/decision"
)

// queueSimulation is a random history of a few pods, their explanation queue, and the
// objects that its tasks write.
type queueSimulation struct {
	*queueTest
	random *rand.Rand
	uids   int
	// pods are the existing pods by name.
	pods map[string]*simulatedPod
	// objects are the SchedulingDecisions by name.
	objects map[string]simulatedObject
	last    Verb
	// draining says that nothing happens any more but tasks.
	draining bool
}

type simulatedPod struct {
	uid       types.UID
	explained string
	bound     bool
	// rejected says that the API server rejected the last explanation.
	rejected bool
	// withdrawn says that the last explanation was withdrawn.
	withdrawn bool
}

type simulatedObject struct {
	owner     types.UID
	text      string
	writtenAt time.Time
}

func TestRandomHistoriesLoseNoExplanation(t *testing.T) {
	before := capacity
	defer func() { capacity = before }()
	capacity = [itemKinds]int{outdatedItems: 2, firstItems: 4, updateItems: 3, boundItems: 2}
	dropped := 0
	for seed := range uint64(2000) {
		p := &queueSimulation{
			queueTest: newQueueTest(t), random: rand.New(rand.NewPCG(seed, 7)),
			pods: map[string]*simulatedPod{}, objects: map[string]simulatedObject{},
		}
		for range 150 {
			p.step()
		}
		p.drain()
		dropped += len(p.dropped)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if dropped == 0 {
		t.Error("no history dropped an explanation")
	}
}

// step makes one random event happen.
func (p *queueSimulation) step() {
	name := fmt.Sprint("pod-", p.random.IntN(9))
	a := p.pods[name]
	switch n := p.random.IntN(20); {
	case a == nil || n == 0:
		// The deletion of the pod before may be reported before, after, or not at all.
		if a != nil && p.random.IntN(2) == 0 {
			p.PodDeleted("shop", name, a.uid)
		}
		p.uids++
		p.pods[name] = &simulatedPod{uid: types.UID(fmt.Sprint("uid-", p.uids))}
		p.putExplanation(name)
		if a != nil {
			p.PodDeleted("shop", name, a.uid)
		}
	case n < 7:
		p.putExplanation(name)
	case n == 7:
		a.bound = true
		p.PodBound("shop", name, a.uid)
	case n == 8:
		delete(p.pods, name)
		p.PodDeleted("shop", name, a.uid)
		p.Put(explanationOf(name, "late", withUID(a.uid)))
	case n == 9 && !a.bound:
		a.explained, a.withdrawn = "", true
		p.Withdraw("shop", name, a.uid)
	case n < 11:
		p.advance(time.Duration(p.random.IntN(40)) * time.Second)
	default:
		p.processTask(p.random.IntN(4))
	}
}

// putExplanation puts an explanation of a pending pod, or the record of a bound one.
func (p *queueSimulation) putExplanation(name string) {
	a := p.pods[name]
	if a == nil {
		return
	}
	e := explanationOf(name, fmt.Sprint("reason ", p.random.IntN(3)), withUID(a.uid))
	if a.bound {
		asBound(&e)
	}
	fresh, before := p.WouldWrite(e), len(p.dropped)
	p.Put(e)
	switch dropped := len(p.dropped) > before; {
	case fresh && dropped:
		p.t.Errorf("WouldWrite accepted %s, and Put dropped it", name)
	case !fresh && !dropped && a.withdrawn && !a.bound:
		p.t.Errorf("%s was withdrawn, and is not accepted again", name)
	case fresh:
		a.explained, a.rejected, a.withdrawn = explanationText(&e), false, false
	}
}

func explanationText(e *decision.Explanation) string {
	if r := e.Status.Rejections; len(r) > 0 {
		return r[0].Reason
	}
	return string(e.Status.Result)
}

// processTask takes a task and ends it in the way that outcome says.
func (p *queueSimulation) processTask(outcome int) (did bool, next time.Time) {
	e, next, ok := p.Take()
	if !ok {
		return false, next
	}
	p.checkTask(e)
	if !e.Outdated {
		p.last = e.Verb
	}
	a := p.pods[e.Pod]
	if e.Verb != Delete {
		if a == nil || a.uid != e.UID {
			p.Obsolete(e, false)
			return true, next
		}
		if a.bound && explanationText(e.Explanation) != "Bound" {
			p.Obsolete(e, true)
			return true, next
		}
	}
	if !p.draining && p.random.IntN(3) == 0 { // during the write
		p.putExplanation(e.Pod)
	}
	switch outcome {
	case 1:
		p.Retry(e, p.time.Add(time.Duration(p.random.IntN(3))*time.Second), false)
	case 2:
		if p.random.IntN(2) == 0 {
			p.applyTask(e, p.objects[e.Pod].writtenAt)
		}
		p.Retry(e, p.time, true)
	case 3:
		if e.Verb != Delete && a.explained == explanationText(e.Explanation) {
			a.rejected = true
		}
		if e.Verb == Delete {
			delete(p.objects, e.Pod) // another client deletes it
		}
		p.Rejected(e)
	default:
		p.applyTask(e, p.time)
		if e.Verb == Delete {
			p.Deleted(e)
		} else {
			p.Written(e, "object-of-"+e.UID)
		}
	}
	return true, next
}

// applyTask changes the objects as the writer would. at is when the object was last
// reported as written.
func (p *queueSimulation) applyTask(e Task, at time.Time) {
	if e.Verb == Delete {
		if o, there := p.objects[e.Pod]; there && (e.UID == "" || o.owner == e.UID) {
			delete(p.objects, e.Pod)
		}
		return
	}
	p.objects[e.Pod] = simulatedObject{owner: e.UID, text: explanationText(e.Explanation), writtenAt: at}
}

// checkTask checks the order and the rate that Take promises.
func (p *queueSimulation) checkTask(e Task) {
	o, there := p.objects[e.Pod]
	if e.Verb == Update && !e.Outdated && there && p.time.Sub(o.writtenAt) < minUpdateInterval {
		p.t.Errorf("%s is updated after %v", e.Pod, p.time.Sub(o.writtenAt))
	}
	waiting := 0
	for _, t := range p.heaps[firstItems] {
		if !t.due.After(p.time) {
			waiting++
		}
	}
	if waiting > 0 && !e.Outdated && (e.Verb == Update || e.Verb == Delete && p.last == Delete) {
		p.t.Errorf("%s of %s comes before %d first explanations", e.Verb, e.Pod, waiting)
	}
}

// drain ends all tasks, and checks the objects that are left.
func (p *queueSimulation) drain() {
	p.draining = true
	for name, a := range p.pods {
		if a.bound {
			p.PodBound("shop", name, a.uid)
		}
	}
	for range 10_000 {
		if did, next := p.processTask(0); !did {
			if next.IsZero() {
				break
			}
			p.time = next
		}
	}
	if p.len() > 0 {
		p.t.Errorf("%d items are left", p.len())
	}
	for name, a := range p.pods {
		o, there := p.objects[name]
		switch {
		case a.bound && there:
			p.t.Errorf("the explanation of %s, which is bound, is left: %+v", name, o)
		case a.withdrawn && there:
			p.t.Errorf("the explanation of %s, which was withdrawn, is left: %+v", name, o)
		case !a.bound && a.explained != "" && !a.rejected && (o.owner != a.uid || o.text != a.explained):
			p.t.Errorf("%s (%s) should be explained by %q, and its object is %+v", name, a.uid, a.explained, o)
		}
	}
	for name, o := range p.objects {
		if a := p.pods[name]; a == nil {
			p.t.Errorf("the explanation of %s, which was deleted, is left: %+v", name, o)
		}
	}
	for name := range p.records {
		if a := p.pods[name.Name]; a == nil || a.bound {
			p.t.Errorf("%s is not forgotten", name)
		}
	}
}
