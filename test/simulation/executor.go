package simulation

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// executor runs tasks one at a time, each from one wait to the next, in the order of the calls
// of step.
type executor struct {
	tasks   []*task // not done, oldest first
	current *task
	// replica is the one whose tasks are started.
	replica *replica
	yielded chan struct{} // receives when the running task yields or ends
	ending  bool
	// clockReads is how often the running task has read the clock since it was resumed.
	clockReads    int
	maxClockReads int
	// onPanic is called for a task that panicked, onSpin for one that never waits.
	onPanic func(t *task, value any, stack []byte)
	onSpin  func(t *task)
}

// task is a goroutine that the executor runs.
type task struct {
	name string
	// replica is the one that the task belongs to.
	replica *replica
	work    func()
	// ready says whether the wait is over; nil: the task does not wait.
	ready func() bool
	// resume lets the task run on; false ends it.
	resume        chan bool
	started, done bool
	// ignoreDeadlines says that no deadline of a context ends the task's waits.
	ignoreDeadlines bool
	// known is what the scheduler knew when the task was started.
	known knownState
	// cycle is the number of the attempt that the loop makes, and group its group. seen are the
	// versions of the snapshot.
	cycle int
	group *framework.GroupCycleState
	seen  cache.ResourceVersions
	// decides says that PreFilter ran in the task, inLoop that the loop waits for it at a group.
	decides, inLoop bool
	// parent started the task; nil once that has ended.
	parent *task
}

func newExecutor() *executor {
	return &executor{yielded: make(chan struct{}), maxClockReads: minClockReads}
}

// start adds a task; step runs it.
func (e *executor) start(name string, work func()) *task {
	t := &task{name: name, replica: e.replica, work: work, resume: make(chan bool), parent: e.current, inLoop: name == loopTask}
	e.tasks = append(e.tasks, t)
	return t
}

// runnable returns the tasks that do not wait, without those of machines that stand still.
func (e *executor) runnable() []*task {
	var found []*task
	for _, t := range e.tasks {
		if t.replica.stopped {
			continue
		}
		if t.ready != nil && t.ready() {
			t.ready = nil
		}
		if t.ready == nil {
			found = append(found, t)
		}
	}
	return found
}

// step runs t until it yields or ends.
func (e *executor) step(t *task) {
	e.current, e.clockReads = t, 0
	if t.started {
		t.resume <- true
	} else {
		t.started = true
		go e.run(t)
	}
	<-e.yielded
	e.current = nil
	if t.done {
		e.tasks = slices.DeleteFunc(e.tasks, func(other *task) bool { return other == t })
	}
}

func (e *executor) run(t *task) {
	defer func() {
		if value := recover(); value != nil {
			e.onPanic(t, value, debug.Stack())
		}
		t.done, t.parent = true, nil
		e.yielded <- struct{}{}
	}()
	t.work()
}

// yield returns control to the executor until ready is true; with nil, until the next step of
// the task. The running task calls it.
func (e *executor) yield(ready func() bool) {
	if e.ending {
		runtime.Goexit()
	}
	t := e.current
	t.ready = ready
	e.yielded <- struct{}{}
	if goOn := <-t.resume; !goOn {
		runtime.Goexit()
	}
}

// minClockReads is how often a task may read the clock before it waits, where there are few
// pods.
const minClockReads = 100000

// noteClockRead stops a task that reads the clock without end. That task may hold a lock, so
// nothing of the scheduler may be called after it.
func (e *executor) noteClockRead() {
	if e.clockReads++; e.clockReads == e.maxClockReads && e.current != nil {
		e.onSpin(e.current)
		e.yield(func() bool { return false })
	}
}

// wait implements framework.Wait. Only a deadline ends ctx early: tasks are ended through
// resume, not through their contexts.
func (e *executor) wait(ctx context.Context, until <-chan struct{}) error {
	over := func() bool {
		select {
		case <-until:
			return true
		default:
			return false
		}
	}
	ignoreDeadlines := e.current.ignoreDeadlines
	e.yield(func() bool { return over() || ctx.Err() != nil && !ignoreDeadlines })
	if over() {
		return nil
	}
	return ctx.Err()
}

// endAll ends every task of a replica where it waits, as a crash does, but for deferred calls,
// which still run.
func (e *executor) endAll(r *replica) {
	e.ending = true
	for {
		i := slices.IndexFunc(e.tasks, func(t *task) bool { return t.replica == r })
		if i < 0 {
			break
		}
		t := e.tasks[i]
		e.tasks = slices.Delete(e.tasks, i, i+1)
		if t.started {
			e.current = t
			t.resume <- false
			<-e.yielded
		}
	}
	e.current, e.ending = nil, false
}
