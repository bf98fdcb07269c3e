package swap

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// cell is one pod in one place under one change, and the stream beside it. Its profile,
// PluginConfig and namespace have its name.
type cell struct {
	Gomega
	profileState
	cellPlugins
	name, placeName, changeName string
	place                       swapmatrix.Place
	change                      swapmatrix.Change
	ctx                         context.Context
	pod                         *v1.Pod
	// failsAfter is a time before the pod's first error, in the places where it has one, and
	// acceptedBy a time at which all plugins accept it.
	failsAfter, acceptedBy time.Time
	// inGang says that the pod is one of a gang, and gang are the others.
	inGang bool
	gang   []*v1.Pod
	stream *stream
	// released is closed to release the blocked calls, and resumeLoop resumes the
	// scheduling loop.
	released   chan struct{}
	resumeLoop func()
	// done is closed at the end, and failures are the failed expectations.
	done     chan struct{}
	failures []string
	// streamHashes are the hashes that decided about the stream.
	streamHashes sets.Set[string]
}

func newCell(name, placeName, changeName string) *cell {
	c := &cell{
		name: name, placeName: placeName, changeName: changeName, place: swapmatrix.Places[placeName], change: swapmatrix.Changes[changeName],
		released: make(chan struct{}), resumeLoop: func() {}, done: make(chan struct{}), streamHashes: sets.New[string](),
	}
	c.spec, c.config = swapmatrix.NewSpec(name), swapmatrix.NewConfig(name)
	c.Gomega = NewGomega(func(message string, _ ...int) { panic(failure(message)) })
	c.SetDefaultEventuallyTimeout(eventuallyTimeout)
	c.SetDefaultEventuallyPollingInterval(pollingInterval)
	return c
}

// failure is the message of a failed expectation.
type failure string

// eventually waits until expect succeeds.
func (c *cell) eventually(expect func(g Gomega), what string) {
	c.Eventually(expect).Should(Succeed(), what)
}

// run runs the cell. At the end nothing is blocked, whatever failed.
func (c *cell) run() {
	var end context.CancelFunc
	c.ctx, end = context.WithCancel(context.Background())
	defer close(c.done)
	defer end()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			c.failures = append(c.failures, string(r))
		default:
			c.failures = append(c.failures, fmt.Sprintf("%v\n%s", r, debug.Stack()))
		}
		c.resetFirst()
		c.release()
		if c.stream != nil {
			c.stream.end()
		}
	}()
	begin := time.Now()
	c.runSteps()
	fmt.Fprintf(GinkgoWriter, "%s, %s, took %v\n", c.name, c.sentence(), time.Since(begin))
}

func (c *cell) runSteps() {
	c.Expect(admin.Create(c.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name}})).To(Succeed())
	c.Expect(admin.Create(c.ctx, c.config)).To(Succeed())
	if c.change.Setup != nil {
		c.change.Setup(editor{c})
	}
	before := c.setUp()
	c.change.Apply(editor{c})
	if c.place.ArrivesAfter() {
		c.createSubject()
	}
	c.release()
	if reason := c.HoldReason(); reason != "" {
		c.expectHeld(reason)
		c.endHold()
	} else if c.change.KeepsGeneration || c.change.KeepsWaiting(c.place) {
		c.expectPlace(c.place.EndsIn, "nothing changed for it")
		c.resetFirst()
		c.triggerEvent()
	}
	c.acceptedBy = time.Now()
	by := []generationID{c.running}
	switch {
	case c.place.Committed:
		by = []generationID{before}
	case c.place.Point != "" || c.place.Where == queue.Held:
		by = append(by, c.intermediate...)
	}
	c.expectBound(by)
	c.expectAttempts()
	c.expectGang()
	c.expectPlugins()
	c.expectStream()
	c.expectNothingLeft()
}

// triggerEvent causes the event that the pod waits for.
func (c *cell) triggerEvent() {
	if c.place.Where == queue.Gated {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+cellLabel+`":"`+c.name+`"}}}`))
		c.Expect(admin.Patch(c.ctx, c.pod.DeepCopy(), patch)).To(Succeed())
		return
	}
	c.Expect(admin.Create(c.ctx, fixture.Node(c.name).Label(cellLabel, c.name).Obj())).To(Succeed())
}

// endHold ends what holds the pods. Where the earlier generation keeps running, its plugins
// accept the pod then.
func (c *cell) endHold() {
	if c.change.KeepsGeneration {
		c.resetFirst()
	}
	switch {
	case c.Deleted:
		editor{c}.Create(nil)
	case c.NamespaceDisallowed:
		c.NamespaceDisallowed = false
		editor{c}.Edit(swapmatrix.AllowAllNamespaces)
	}
	if c.Paused {
		editor{c}.resume()
	}
}

// setUp creates the profile, starts the stream, brings the pod to its place, and returns
// the generation that runs then.
func (c *cell) setUp() generationID {
	then := c.place.Answer
	if c.place.Blocks {
		then = c.blockUntilReleased(then)
	}
	c.setStatuses(c.place.Point, then)
	editor{c}.Edit(nil)
	c.markFirst()
	c.stream = startStream(c)
	switch {
	case c.place.ArrivesAfter():
		return c.running
	case c.place.Where == queue.Held:
		editor{c}.Pause()
	case c.place.BlocksLoop():
		c.stopLoop()
	}
	c.createSubject()
	c.eventually(func(g Gomega) { g.Expect(c.inPlace()).To(BeTrue()) }, "the pod is in its place")
	c.expectPlace(c.place.Where, "its place")
	return c.running
}

// stopLoop blocks the scheduling loop when the pod is in its place, or after a pod that was
// popped before, until release. Only one cell at a time may block it.
func (c *cell) stopLoop() {
	loopStops.turn.Lock()
	c.resumeLoop = loopStops.turn.Unlock
	var block *loopStop
	switch {
	case c.placeName == swapmatrix.Popped:
		block = loopStops.at(c.name + "/" + subject)
	case c.place.Where == queue.Active:
		block = loopStops.at(c.name + "/blocker")
	default:
		return
	}
	c.resumeLoop = func() {
		close(block.released)
		loopStops.turn.Unlock()
	}
	if c.place.Where == queue.Active {
		c.stream.create("blocker")
		c.eventually(func(g Gomega) { g.Expect(block.reached).To(BeClosed()) }, "the loop is blocked")
	}
}

// inPlace reports whether the pod is in its place. The queue does not distinguish places in
// flight.
func (c *cell) inPlace() bool {
	uid := c.pod.UID
	switch {
	case c.place.Permit != "":
		return berth.Scheduler().Components().Waiting.Get(uid) != nil
	case c.place.Point == "Bind":
		for _, b := range bindings.Bindings() {
			if b.Namespace == c.name && b.Pod == subject && b.Delayed {
				return true
			}
		}
		return false
	case c.place.Blocks:
		return c.blockedCalls.Load() > 0
	}
	return c.queuePlace() == c.place.Where
}

// queuePlace returns the pod's place in the queue, empty if it is not there.
func (c *cell) queuePlace() queue.Place {
	return berth.Scheduler().Components().Queue.Places()[c.pod.UID]
}

func (c *cell) expectPlace(place queue.Place, why string) {
	c.Eventually(c.queuePlace).Should(Equal(place), why)
}

// createSubject creates the pod, and its gang.
func (c *cell) createSubject() {
	c.failsAfter = time.Now()
	if c.inGang {
		c.createGang()
		return
	}
	c.pod = c.newPod(subject)
}

func (c *cell) newPod(name string) *v1.Pod { return c.createPod(name, nil) }

func (c *cell) createPod(name string, annotations map[string]string) *v1.Pod {
	pod := fixture.Pod(c.name + "/" + name).SchedulerName(c.name).Valid()
	pod.Annotations = annotations
	c.Expect(admin.Create(c.ctx, pod)).To(Succeed())
	return pod
}

// release releases the pod. A second call does nothing.
func (c *cell) release() {
	select {
	case <-c.released:
		return
	default:
		if c.place.Blocks {
			c.failsAfter = time.Now()
		}
		close(c.released)
	}
	if c.pod != nil && c.place.Permit != "" {
		if waitingPod := berth.Scheduler().Components().Waiting.Get(c.pod.UID); waitingPod == nil {
			c.failures = append(c.failures, "the pod does not wait on Permit any more")
		} else if c.place.Permit == swapmatrix.Allow {
			waitingPod.Allow(swapmatrix.Decider)
		} else {
			waitingPod.Reject(swapmatrix.Decider, "no")
		}
	}
	c.resumeLoop()
}

// loopStopper blocks the scheduling loop between two steps: after it has popped a pod and
// before it acquires the generation. There it calls nothing but its logger, which gets the
// name of the pod.
type loopStopper struct {
	// turn is held by the cell that blocks the loop.
	turn sync.Mutex

	mu    sync.Mutex
	stops map[string]*loopStop
}

// loopStop blocks the loop at one pod: reached is closed when the pod is popped, and the
// loop continues when released is.
type loopStop struct{ reached, released chan struct{} }

// at blocks the loop when it pops the pod "namespace/name".
func (s *loopStopper) at(pod string) *loopStop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops == nil {
		s.stops = map[string]*loopStop{}
	}
	s.stops[pod] = &loopStop{make(chan struct{}), make(chan struct{})}
	return s.stops[pod]
}

func (s *loopStopper) pass(pod string) {
	s.mu.Lock()
	atPod := s.stops[pod]
	delete(s.stops, pod)
	s.mu.Unlock()
	if atPod != nil {
		close(atPod.reached)
		<-atPod.released
	}
}

// stoppingSink is a LogSink that blocks the caller at a pod.
type stoppingSink struct {
	logr.LogSink
	stops *loopStopper
}

// WithValues is called with the name of the pod.
func (s *stoppingSink) WithValues(pairs ...any) logr.LogSink {
	if len(pairs) > 1 && pairs[0] == "pod" {
		if pod, ok := pairs[1].(klog.ObjectRef); ok {
			s.stops.pass(pod.Namespace + "/" + pod.Name)
		}
	}
	return &stoppingSink{s.LogSink.WithValues(pairs...), s.stops}
}

func (s *stoppingSink) WithName(name string) logr.LogSink {
	return &stoppingSink{s.LogSink.WithName(name), s.stops}
}

// delayBinding delays the Bindings of the cells whose place is Bind.
func delayBinding(b faultproxy.Binding) *faultproxy.Fault {
	for _, c := range cells {
		if c.place.Point == "Bind" && b.Namespace == c.name && b.Pod == subject {
			return &faultproxy.Fault{Hold: c.released, Commits: true}
		}
	}
	return nil
}
