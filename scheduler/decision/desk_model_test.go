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
type play struct {
	*counter
	dice *rand.Rand
	uids int
	// pods are those that there are, by name; said is what was put of them last
	// and not dropped.
	pods map[string]*actor
	// objects are the SchedulingDecisions, by name.
	objects map[string]object
	last    Verb
	// still says that nothing happens any more but errands.
	still bool
}

type actor struct {
	uid   types.UID
	said  string
	bound bool
	// refused pods are owed nothing.
	refused bool
	// unsaid: what was said is taken back.
	unsaid bool
}

type object struct {
	owner types.UID
	says  string
	at    time.Time
}

func TestNothingIsLostWhateverHappens(t *testing.T) {
	before := room
	defer func() { room = before }()
	room = [lanes]int{outdated: 2, firsts: 4, updates: 3, records: 2}
	dropped := 0
	for seed := range uint64(2000) {
		p := &play{
			counter: newCounter(t), dice: rand.New(rand.NewPCG(seed, 7)),
			pods: map[string]*actor{}, objects: map[string]object{},
		}
		for range 150 {
			p.step()
		}
		p.rest()
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
func (p *play) step() {
	name := fmt.Sprint("pod-", p.dice.IntN(9))
	a := p.pods[name]
	switch n := p.dice.IntN(20); {
	case a == nil || n == 0:
		// Its predecessor's end may be told before, after, or not at all.
		if a != nil && p.dice.IntN(2) == 0 {
			p.Gone("shop", name, a.uid)
		}
		p.uids++
		p.pods[name] = &actor{uid: types.UID(fmt.Sprint("uid-", p.uids))}
		p.put(name)
		if a != nil {
			p.Gone("shop", name, a.uid)
		}
	case n < 7:
		p.put(name)
	case n == 7:
		a.bound = true
		p.Bound("shop", name, a.uid)
	case n == 8:
		delete(p.pods, name)
		p.Gone("shop", name, a.uid)
		p.Put(says(name, "late", of(a.uid)))
	case n == 9 && !a.bound:
		a.said, a.unsaid = "", true
		p.Unsay("shop", name, a.uid)
	case n < 11:
		p.pass(time.Duration(p.dice.IntN(40)) * time.Second)
	default:
		p.work(p.dice.IntN(4))
	}
}

// put explains a pod, or records where it is bound to.
func (p *play) put(name string) {
	a := p.pods[name]
	if a == nil {
		return
	}
	e := says(name, fmt.Sprint("reason ", p.dice.IntN(3)), of(a.uid))
	if a.bound {
		placed(&e)
	}
	fresh, before := p.Fresh(e), len(p.dropped)
	p.Put(e)
	switch dropped := len(p.dropped) > before; {
	case fresh && dropped:
		p.t.Errorf("%s would have been written, and was dropped", name)
	case !fresh && !dropped && a.unsaid && !a.bound:
		p.t.Errorf("%s was taken back, and is not told again", name)
	case fresh:
		a.said, a.refused, a.unsaid = text(&e), false, false
	}
}

func text(e *Explanation) string {
	if r := e.Status.Rejections; len(r) > 0 {
		return r[0].Reason
	}
	return string(e.Status.Result)
}

// work takes an errand and carries it out with more or less luck.
func (p *play) work(luck int) (did bool, next time.Time) {
	e, next, ok := p.Take()
	if !ok {
		return false, next
	}
	p.check(e)
	if !e.Outdated {
		p.last = e.Verb
	}
	a := p.pods[e.Pod]
	if e.Verb != Delete {
		if a == nil || a.uid != e.UID {
			p.Moot(e, false)
			return true, next
		}
		if a.bound && text(e.Explanation) != "Bound" {
			p.Moot(e, true)
			return true, next
		}
	}
	if !p.still && p.dice.IntN(3) == 0 { // beside the write
		p.put(e.Pod)
	}
	switch luck {
	case 1:
		p.Again(e, p.time.Add(time.Duration(p.dice.IntN(3))*time.Second), false)
	case 2:
		if p.dice.IntN(2) == 0 {
			p.carryOut(e, p.objects[e.Pod].at)
		}
		p.Again(e, p.time, true)
	case 3:
		if e.Verb != Delete && a.said == text(e.Explanation) {
			a.refused = true
		}
		if e.Verb == Delete {
			delete(p.objects, e.Pod) // somebody else will
		}
		p.Refused(e)
	default:
		p.carryOut(e, p.time)
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
func (p *play) carryOut(e Errand, at time.Time) {
	if e.Verb == Delete {
		if o, there := p.objects[e.Pod]; there && (e.UID == "" || o.owner == e.UID) {
			delete(p.objects, e.Pod)
		}
		return
	}
	p.objects[e.Pod] = object{owner: e.UID, says: text(e.Explanation), at: at}
}

// check holds an errand to what is promised of it.
func (p *play) check(e Errand) {
	o, there := p.objects[e.Pod]
	if e.Verb == Update && !e.Outdated && there && p.time.Sub(o.at) < updateEvery {
		p.t.Errorf("%s is updated after %v", e.Pod, p.time.Sub(o.at))
	}
	waiting := 0
	for _, t := range p.lanes[firsts] {
		if !t.due.After(p.time) {
			waiting++
		}
	}
	if waiting > 0 && !e.Outdated && (e.Verb == Update || e.Verb == Delete && p.last == Delete) {
		p.t.Errorf("%s of %s comes before %d that were never explained", e.Verb, e.Pod, waiting)
	}
}

// rest lets the world be until nothing is left to be done, and looks at it.
func (p *play) rest() {
	p.still = true
	for name, a := range p.pods {
		if a.bound {
			p.Bound("shop", name, a.uid)
		}
	}
	for range 10_000 {
		if did, next := p.work(0); !did {
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
		case a.unsaid && there:
			p.t.Errorf("the explanation of %s, which was taken back, is left: %+v", name, o)
		case !a.bound && a.said != "" && !a.refused && (o.owner != a.uid || o.says != a.said):
			p.t.Errorf("%s (%s) waits for %q, and its object says %+v", name, a.uid, a.said, o)
		}
	}
	for name, o := range p.objects {
		if a := p.pods[name]; a == nil {
			p.t.Errorf("the explanation of %s, which is gone, is left: %+v", name, o)
		}
	}
	for name := range p.slips {
		if a := p.pods[name.Name]; a == nil || a.bound {
			p.t.Errorf("%s is not forgotten", name)
		}
	}
}
