package simulation

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// cell is one thing that a history can meet, such as a pod that goes from one place to another.
// A section of the table has two names for each of its cells; what only guides has up to three.
type cell struct{ section, a, b, c string }

// names are the row and the column.
func (at cell) names() string { return strings.TrimSuffix(at.a+" × "+at.b, " × ") }

// The sections of the table.
const (
	countSection      = "what happened"
	transitionSection = "a pod goes from one state to another"
	ownEventSection   = "a pod's own event reaches it in a state"
	otherEventSection = "an event of other objects comes while a pod is in a state"
	requestSection    = "a request about a pod ends while the pod is in a state"
	lateSection       = "a write may still arrive while its pod is in a state"
	profileSection    = "a profile changes while a pod of it is in a state"
	endSection        = "a process ends while a pod is in a state"
	wireSection       = "a process ends while a request is on its way"
	phaseSection      = "a fault in a phase of the process"
)

// The sections that only guide: their cells are too many for a table.
const (
	trailSection  = "from, event, to"
	pathSection   = "three states"
	taskSection   = "counted by a task"
	duringSection = "from one state to another while a profile changes"
)

// coverage records what one history meets. A nil coverage records nothing. It looks at the pods
// after each step, and knows their states of then: what it gets within a step may be about a
// pod that has gone on already.
type coverage struct {
	cells map[cell]int
	pods  map[types.UID]*podTrail
	byKey map[string]types.UID
	// present are the states in which pods are.
	present map[string]bool
	// subject is the pod of the request that is being processed, and isRequest says that there
	// is one, if not about a pod.
	subject   string
	isRequest bool
	// wire are the requests on their way, as verbs and how far they have come.
	wire []string
	// lateWrites are the verbs of the writes that may still arrive, by the keys of their pods.
	lateWrites map[string]string
	subjects   map[*request]string
	// changing are the profiles that are being changed, and how.
	changing map[string]string
	// crashes is how often a process was killed.
	crashes int
	// seen marks the pods of an observation, and version is that of the API server then.
	seen, version int
}

// podTrail is what became of a pod.
type podTrail struct {
	key, profile string
	// before, state: the last two states.
	before, state string
	// event is the last event since the last change of the state.
	event string
	// late is the verb of a write about it that may still arrive.
	late string
	seen int
}

func newCoverage() *coverage {
	return &coverage{
		cells: map[cell]int{}, pods: map[types.UID]*podTrail{}, byKey: map[string]types.UID{}, present: map[string]bool{},
		lateWrites: map[string]string{}, subjects: map[*request]string{}, changing: map[string]string{},
	}
}

func (c *coverage) add(section, a, b string) { c.cells[cell{section: section, a: a, b: b}]++ }

// count records what the simulation counts: with the task that runs, and with the state of the
// pod that a request is about.
func (c *coverage) count(sim *simulation, what string) {
	if c == nil {
		return
	}
	c.add(taskSection, what, taskKind(sim))
	if c.isRequest {
		c.add(requestSection, what, c.stateOf(c.subject))
	}
	if c.isRequest || isPluginFault(what) {
		c.add(phaseSection, what, phaseOf(sim))
	}
}

// about calls do, which processes a request.
func (c *coverage) about(r *request, do func()) {
	if c == nil {
		do()
		return
	}
	c.subject, c.isRequest = c.subjectOf(r), true
	do()
	c.subject, c.isRequest = "", false
}

// subjectOf is the key of the object that a request is about, as its description has it: the
// first two words with a slash between them.
func (c *coverage) subjectOf(r *request) string {
	key, known := c.subjects[r]
	if !known {
		for _, word := range strings.Fields(r.description) {
			if word = strings.TrimSuffix(word, ":"); strings.Count(word, "/") == 1 {
				key = word
				break
			}
		}
		c.subjects[r] = key
	}
	return key
}

// stateOf is the state of the pod with a key.
func (c *coverage) stateOf(key string) string {
	uid, known := c.byKey[key]
	if !known {
		return stateNoPod
	}
	return c.pods[uid].state
}

// event records an event that reaches the handler of an informer.
func (c *coverage) event(informer string, n notification) {
	if c == nil {
		return
	}
	name := eventName(informer, n)
	about := n.new
	if about == nil {
		about = n.old
	}
	if informer == "pods" {
		own := c.pods[about.GetUID()]
		state := stateNoPod
		if own != nil {
			state, own.event = own.state, name
		}
		c.add(ownEventSection, state, name)
		if !concernsOthers(n) {
			return
		}
	}
	for state := range c.present {
		c.add(otherEventSection, state, name)
	}
	for uid, pod := range c.pods {
		if uid != about.GetUID() {
			pod.event = name
		}
	}
}

// profileChange records in which states the pods of a profile are when its change begins, and
// when the returned function is called at its end.
func (c *coverage) profileChange(p *profile) func() {
	if c == nil {
		return func() {}
	}
	change := changeOf(p)
	record := func(when string) {
		for _, pod := range c.pods {
			if pod.profile == p.name {
				c.add(profileSection, change+when, pod.state)
			}
		}
	}
	record(changeBegins)
	c.changing[p.name] = change
	process := p.sim.process
	return func() {
		if process != p.sim.process || p.sim.tasks.ending {
			return
		}
		delete(c.changing, p.name)
		record(changeEnds)
	}
}

// endOfProcess records in which states a process leaves its pods, and what it has sent.
func (c *coverage) endOfProcess(sim *simulation) {
	if c == nil {
		return
	}
	how := endFrozen
	if sim.counts["a crash"] > c.crashes {
		how, c.crashes = endKilled, sim.counts["a crash"]
	}
	for _, pod := range c.pods {
		c.add(endSection, how, pod.state)
	}
	for _, sent := range c.wire {
		c.add(wireSection, how, sent)
	}
	clear(c.changing)
	clear(c.pods)
	clear(c.byKey)
	clear(c.present)
	c.wire = nil
}

// observeWrites is observe for what was written outside a step.
func (c *coverage) observeWrites(sim *simulation) {
	if c != nil && c.version != sim.server.version {
		c.observe(sim)
	}
}

// observe records the states of all pods after a step.
func (c *coverage) observe(sim *simulation) {
	if c == nil {
		return
	}
	c.version = sim.server.version
	c.noteRequests(sim)
	places := sim.sched.Components().Queue.Places()
	c.seen++
	clear(c.present)
	for _, pod := range sim.server.sorted {
		place, queued := places[pod.UID]
		trail := c.pods[pod.UID]
		if trail == nil {
			trail = &podTrail{key: keyOf(pod), profile: pod.Spec.SchedulerName}
			c.pods[pod.UID], c.byKey[trail.key] = trail, pod.UID
		}
		c.note(trail, c.podState(sim, pod, place, queued))
	}
	for uid, trail := range c.pods {
		if trail.seen == c.seen {
			continue
		}
		place, queued := places[uid]
		if queued {
			c.note(trail, cmp.Or(string(place), stateAdded)+deletedMark)
			continue
		}
		c.note(trail, stateDeleted)
		delete(c.pods, uid)
		if c.byKey[trail.key] == uid {
			delete(c.byKey, trail.key)
		}
	}
}

// note records the state of a pod after a step.
func (c *coverage) note(pod *podTrail, state string) {
	pod.seen = c.seen
	c.present[state] = true
	if late := c.lateWrites[pod.key]; late != "" && (late != pod.late || pod.state != state) {
		c.add(lateSection, late, state)
	}
	pod.late = c.lateWrites[pod.key]
	if pod.state == state {
		return
	}
	if pod.state != "" {
		c.add(transitionSection, pod.state, state)
		c.cells[cell{trailSection, pod.state, pod.event, state}]++
		c.cells[cell{pathSection, pod.before, pod.state, state}]++
		if change, during := c.changing[pod.profile]; during {
			c.cells[cell{duringSection, pod.state, state, change}]++
		}
	}
	pod.before, pod.state, pod.event = pod.state, state, ""
}

// noteRequests notes what is on its way.
func (c *coverage) noteRequests(sim *simulation) {
	c.wire = c.wire[:0]
	for _, r := range sim.requests {
		c.wire = append(c.wire, r.verb+progressOf(r))
	}
	clear(c.lateWrites)
	for _, r := range sim.lateWrites {
		if key := c.subjectOf(r); key != "" {
			c.lateWrites[key] = r.verb
		}
	}
}

// sorted are the cells that were met, in an order of their own.
func (c *coverage) sorted() []cell {
	return slices.SortedFunc(maps.Keys(c.cells), func(x, y cell) int {
		return cmp.Or(cmp.Compare(x.section, y.section), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.c, y.c))
	})
}

// end records what the history counted.
func (c *coverage) end(sim *simulation) {
	if c == nil {
		return
	}
	for what, times := range sim.counts {
		c.cells[cell{section: countSection, a: what}] = times
	}
}

// isPluginFault says whether a count is of a plugin's call that failed.
func isPluginFault(what string) bool {
	return slices.ContainsFunc(pluginFaultPrefixes, func(prefix string) bool { return strings.HasPrefix(what, prefix) })
}
