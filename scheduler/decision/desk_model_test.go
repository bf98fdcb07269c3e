package decision

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// play is a random history of a few pods, a desk and the cluster that its
// errands are carried out in.
type queueSimulation struct {
	*queueTest
	random *rand.Rand
	uids   int
	// pods are those that there are, by name; said is what was put of them last
	// and not dropped.
	pods map[string]*simulatedPod
	// objects are the SchedulingDecisions, by name.
	objects map[string]simulatedObject
	last    Verb
	// still says that nothing happens any more but errands.
	draining bool
}

type simulatedPod struct {
	uid       types.UID
	explained string
	bound     bool
	// refused pods are owed nothing.
	rejected bool
	// unsaid: what was said is taken back.
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
		t.Error("no history was so full that anything was dropped")
	}
}

// step has one thing happen.
func (p *queueSimulation) step() {
	name := fmt.Sprint("pod-", p.random.IntN(9))
	a := p.pods[name]
	switch n := p.random.IntN(20); {
	case a == nil || n == 0:
		// Its predecessor's end may be told before, after, or not at all.
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

// put explains a pod, or records where it is bound to.
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
		p.t.Errorf("%s would have been written, and was dropped", name)
	case !fresh && !dropped && a.withdrawn && !a.bound:
		p.t.Errorf("%s was taken back, and is not told again", name)
	case fresh:
		a.explained, a.rejected, a.withdrawn = explanationText(&e), false, false
	}
}

func explanationText(e *Explanation) string {
	if r := e.Status.Rejections; len(r) > 0 {
		return r[0].Reason
	}
	return string(e.Status.Result)
}

// work takes an errand and carries it out with more or less luck.
func (p *queueSimulation) processTask(luck int) (did bool, next time.Time) {
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
	if !p.draining && p.random.IntN(3) == 0 { // beside the write
		p.putExplanation(e.Pod)
	}
	switch luck {
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
			delete(p.objects, e.Pod) // somebody else will
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

// carryOut does to the cluster what the writer would. at is when the last write
// was that was told to the desk.
func (p *queueSimulation) applyTask(e Task, at time.Time) {
	if e.Verb == Delete {
		if o, there := p.objects[e.Pod]; there && (e.UID == "" || o.owner == e.UID) {
			delete(p.objects, e.Pod)
		}
		return
	}
	p.objects[e.Pod] = simulatedObject{owner: e.UID, text: explanationText(e.Explanation), writtenAt: at}
}

// check holds an errand to what is promised of it.
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
		p.t.Errorf("%s of %s comes before %d that were never explained", e.Verb, e.Pod, waiting)
	}
}

// rest lets the world be until nothing is left to be done, and looks at it.
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
		p.t.Errorf("%d tickets are left", p.len())
	}
	for name, a := range p.pods {
		o, there := p.objects[name]
		switch {
		case a.bound && there:
			p.t.Errorf("the explanation of %s, which is bound, is left: %+v", name, o)
		case a.withdrawn && there:
			p.t.Errorf("the explanation of %s, which was taken back, is left: %+v", name, o)
		case !a.bound && a.explained != "" && !a.rejected && (o.owner != a.uid || o.text != a.explained):
			p.t.Errorf("%s (%s) waits for %q, and its object says %+v", name, a.uid, a.explained, o)
		}
	}
	for name, o := range p.objects {
		if a := p.pods[name]; a == nil {
			p.t.Errorf("the explanation of %s, which is gone, is left: %+v", name, o)
		}
	}
	for name := range p.records {
		if a := p.pods[name.Name]; a == nil || a.bound {
			p.t.Errorf("%s is not forgotten", name)
		}
	}
}
