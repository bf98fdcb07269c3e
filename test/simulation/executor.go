package simulation

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
)

// executor runs tasks one at a time, each from one wait to the next. Whoever
// calls step decides the order.
type executor struct {
	tasks   []*task // not over yet, oldest first
	current *task
	back    chan struct{} // the running task gives the baton back
	ending  bool
	// looks is how often the running task has looked at the clock.
	looks int
	// panicked hears of a task that panicked, spinning of one that never waits.
	panicked func(t *task, value any, stack []byte)
	spinning func(t *task)
}

// task is one piece of work.
type task struct {
	name string
	work func()
	// ready says whether the wait is over; nil: there is none.
	ready func() bool
	// baton lets the task go on, or with false tells it to end.
	baton       chan bool
	begun, over bool
	// patient says that the task's waits have no limit.
	patient bool
	// view is what the scheduler knew when the task was started.
	view view
}

func newExecutor() *executor { return &executor{back: make(chan struct{})} }

// start adds a task, which runs when its turn comes.
func (e *executor) start(name string, work func()) *task {
	t := &task{name: name, work: work, baton: make(chan bool)}
	e.tasks = append(e.tasks, t)
	return t
}

// runnable are the tasks that do not wait.
func (e *executor) runnable() []*task {
	var found []*task
	for _, t := range e.tasks {
		if t.ready != nil && t.ready() {
			t.ready = nil
		}
		if t.ready == nil {
			found = append(found, t)
		}
	}
	return found
}

// step lets t go on until it waits or is over.
func (e *executor) step(t *task) {
	e.current, e.looks = t, 0
	if t.begun {
		t.baton <- true
	} else {
		t.begun = true
		go e.run(t)
	}
	<-e.back
	e.current = nil
	if t.over {
		e.tasks = slices.DeleteFunc(e.tasks, func(other *task) bool { return other == t })
	}
}

func (e *executor) run(t *task) {
	defer func() {
		if value := recover(); value != nil {
			e.panicked(t, value, debug.Stack())
		}
		t.over = true
		e.back <- struct{}{}
	}()
	t.work()
}

// park gives the baton back until ready says that the wait is over; nil waits
// for nothing but the next turn. The running task calls it.
func (e *executor) park(ready func() bool) {
	if e.ending {
		runtime.Goexit()
	}
	t := e.current
	t.ready = ready
	e.back <- struct{}{}
	if goOn := <-t.baton; !goOn {
		runtime.Goexit()
	}
}

// mostLooks is how often a task may look at the clock before it waits.
const mostLooks = 100000

// look stops a task for good that goes round and round. Whoever looks at the
// clock may hold a lock: nothing may be asked of the rooms any more.
func (e *executor) look() {
	if e.looks++; e.looks == mostLooks && e.current != nil {
		e.spinning(e.current)
		e.park(func() bool { return false })
	}
}

// wait is the framework.Wait of tasks. The end of ctx is a limit that was set
// to the wait: otherwise a task is ended, and not its context.
func (e *executor) wait(ctx context.Context, until <-chan struct{}) error {
	over := func() bool {
		select {
		case <-until:
			return true
		default:
			return false
		}
	}
	patient := e.current.patient
	e.park(func() bool { return over() || ctx.Err() != nil && !patient })
	if over() {
		return nil
	}
	return ctx.Err()
}

// endAll ends every task where it waits, as a crash would. What a task
// deferred still runs.
func (e *executor) endAll() {
	e.ending = true
	for len(e.tasks) > 0 {
		t := e.tasks[0]
		e.tasks = e.tasks[1:]
		if t.begun {
			e.current = t
			t.baton <- false
			<-e.back
		}
	}
	e.current, e.ending = nil, false
}
