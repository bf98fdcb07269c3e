package recorder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestTheFieldsOfAnEvent(t *testing.T) {
	e := newTestEnv(t, nil)
	pod := fixture.Pod("shop/web-1").UID("u1").Obj()
	pod.ResourceVersion = "7"
	e.For("batch").Eventf(pod, fixture.Node("n1").Obj(), v1.EventTypeNormal, "Scheduled", "Binding", "assigned to %s", "n1")
	e.waitForWriters()
	want := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-1.%x", e.clock.Now().UnixNano()), Namespace: "shop"},
		EventTime:  metav1.MicroTime{Time: e.clock.Now()}, ReportingController: "batch", ReportingInstance: "batch-host",
		Type: "Normal", Reason: "Scheduled", Action: "Binding", Note: "assigned to n1",
		Regarding: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "shop", Name: "web-1", UID: "u1", ResourceVersion: "7"},
		Related:   &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "n1"},
	}
	got := e.server.stored[want.Name]
	if got != nil && got.Related != nil {
		got.Related.UID, got.Related.ResourceVersion = "", ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Event (-want +got):\n%s", diff)
	}
}

func TestRepeatedEventsBecomeASeries(t *testing.T) {
	type step struct {
		after  time.Duration
		record bool // false: sweep
		want   []string
	}
	for name, steps := range map[string][]step{
		"two and more within six minutes: the second is written, the rest when it is quiet": {
			{0, true, []string{"create a"}}, {time.Minute, true, []string{"patch a x2"}}, {time.Minute, true, nil}, {time.Minute, true, nil},
			{5 * time.Minute, false, nil}, {time.Minute, false, []string{"patch a x4"}}, {time.Minute, false, nil},
		},
		"after six quiet minutes it is a new Event": {
			{0, true, []string{"create a"}}, {finishTime, true, []string{"create a"}},
		},
		"the count of a series that ended is written when the Event occurs again": {
			{0, true, []string{"create a"}}, {time.Minute, true, []string{"patch a x2"}}, {time.Minute, true, nil},
			{finishTime, true, []string{"create a", "patch a x3"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, nil)
			for i, s := range steps {
				e.clock.Step(s.after)
				if s.record {
					e.recordRefusal("a")
				} else {
					e.sweep()
				}
				e.waitForWriters()
				got := e.server.take(t, 0)
				if diff := cmp.Diff(toSet(s.want), toSet(got)); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestAnEventIsWrittenOnceHoweverLongThePodsNameIs(t *testing.T) {
	for name, length := range map[string]int{"short": 3, "too long for a name made of it": 253} {
		t.Run(name, func(t *testing.T) {
			pod := strings.Repeat("a", length)
			e := newTestEnv(t, nil)
			e.server.lostAnswers = 1
			e.recordRefusal(pod)
			eventually(t, "the writer waits after the lost answer", e.clock.HasWaiters)
			e.clock.Step(retryDelay)
			e.waitForWriters()
			e.recordRefusal(pod)
			e.waitForWriters()
			want := []string{"create " + pod, "create " + pod, "patch " + pod + " x2"}
			if diff := cmp.Diff(want, e.server.take(t, len(want))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got := len(e.server.stored); got != 1 {
				t.Errorf("the API server has %d Events, want 1", got)
			}
		})
	}
}

func TestALongSeriesIsRefreshedEveryHalfHour(t *testing.T) {
	e := newTestEnv(t, nil)
	var patches []string
	for range 33 {
		e.recordRefusal("a")
		e.waitForWriters()
		e.clock.Step(time.Minute)
		e.sweep()
		e.waitForWriters()
		patches = append(patches, e.server.take(t, 0)...)
	}
	if diff := cmp.Diff([]string{"create a", "patch a x2", "patch a x32"}, patches); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEventsYieldToBindsAndStartSlowly(t *testing.T) {
	for name, test := range map[string]struct {
		busy func(answers int) bool
		// answers are how many requests have been answered, most how many then wait for one.
		answers, most int
		// waited is how long the Events have waited then.
		waited time.Duration
	}{
		"one is written at first":                          {func(int) bool { return false }, 0, 1, 0},
		"one more with each that was written":              {func(int) bool { return false }, 3, 4, 0},
		"maxWriters at most":                               {func(int) bool { return false }, 40, maxWriters, 0},
		"one while binds are in flight":                    {func(int) bool { return true }, 40, minWriters, 0},
		"one until the first has waited for half a minute": {func(int) bool { return true }, 40, minWriters, lateAfter},
		"one more for each two seconds after that":         {func(int) bool { return true }, 40, 6, lateAfter + 10*time.Second},
		"maxWriters where Events are late":                 {func(int) bool { return true }, 40, maxWriters, 5 * time.Minute},
		"one again when the next bind has begun":           {func(n int) bool { return n == 40 }, 40, minWriters, 0},
		"one more with each after the last bind":           {func(n int) bool { return n < 20 }, 22, 4, 0},
		"maxWriters a while after the last bind":           {func(n int) bool { return n < 20 }, 40, maxWriters, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered := 0
				e := newTestEnv(t, func(o *Options) { o.Busy = func() bool { return test.busy(answered) } })
				e.server.gate = make(chan struct{})
				for i := range 100 {
					e.recordRefusal(fmt.Sprint("p", i))
				}
				e.clock.Step(test.waited)
				for synctest.Wait(); answered < test.answers; synctest.Wait() {
					answered++
					e.server.gate <- struct{}{}
				}
				for synctest.Wait(); e.server.blocked > test.most && test.busy(answered); synctest.Wait() {
					e.server.gate <- struct{}{} // those that were sent before the bind began
				}
				if e.server.blocked != test.most {
					t.Errorf("%d are written at once, want %d", e.server.blocked, test.most)
				}
				close(e.server.gate)
				e.waitForWriters()
				if got := len(e.server.take(t, 100)); got != 100 {
					t.Errorf("%d were written, want 100", got)
				}
			})
		})
	}
}

func TestTheAPIServersErrorDecidesWhetherAnEventIsRetried(t *testing.T) {
	events := eventsv1.Resource("events")
	for name, test := range map[string]struct {
		answer error
		again  bool
	}{
		"an internal error":            {apierrors.NewInternalError(fmt.Errorf("no leader")), true},
		"too many requests":            {apierrors.NewTooManyRequests("later", 1), true},
		"no response":                  {fmt.Errorf("connection reset"), true},
		"forbidden":                    {apierrors.NewForbidden(events, "a", fmt.Errorf("no")), false},
		"the namespace is terminating": {apierrors.NewForbidden(events, "a", fmt.Errorf("being terminated")), false},
		"the Event exists":             {apierrors.NewAlreadyExists(events, "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, nil)
			e.server.answers = []error{test.answer}
			e.recordRefusal("a")
			if test.again {
				eventually(t, "the writer waits after the error", e.clock.HasWaiters)
				e.clock.Step(retryDelay)
			}
			e.waitForWriters()
			want := []string{"create a"}
			if test.again {
				want = append(want, "create a")
			}
			if diff := cmp.Diff(want, e.server.take(t, len(want))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEventThatExpiredIsCreatedAgain(t *testing.T) {
	e := newTestEnv(t, nil)
	e.recordRefusal("a")
	e.waitForWriters()
	clear(e.server.stored)
	e.recordRefusal("a")
	e.waitForWriters()
	if diff := cmp.Diff([]string{"create a", "create a x2"}, e.server.take(t, 2)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEventsBeyondTheLimitAreDropped(t *testing.T) {
	e := newTestEnv(t, func(o *Options) { o.Limit, o.Go = 10, func(func()) {} })
	for i := range 15 {
		e.recordRefusal(fmt.Sprint("p", i))
	}
	if got := e.queue.len(); got != 10 {
		t.Errorf("%d wait, want 10", got)
	}
}

func TestCloseWritesTheEventsThatAreLeft(t *testing.T) {
	e := newTestEnv(t, func(o *Options) { o.Busy = func() bool { return true } })
	for i := range 50 {
		e.recordRefusal(fmt.Sprint("p", i))
	}
	e.Close(context.Background())
	if got := len(e.server.take(t, 50)); got != 50 {
		t.Errorf("%d written, want 50", got)
	}
	e.recordRefusal("late")
	e.waitForWriters()
	if got := e.server.take(t, 0); len(got) != 0 {
		t.Errorf("after the end: %v", got)
	}
}

func TestCloseWritesTheEventThatAWriterRetries(t *testing.T) {
	e := newTestEnv(t, nil)
	e.server.answers = []error{fmt.Errorf("connection reset")}
	e.recordRefusal("a")
	eventually(t, "the writer waits after the error", e.clock.HasWaiters)
	e.Close(context.Background())
	if diff := cmp.Diff([]string{"create a", "create a"}, e.server.take(t, 0)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestInvalidEventsAreNotSent(t *testing.T) {
	e := newTestEnv(t, nil)
	e.For("batch").Eventf(fixture.Pod("a").Obj(), nil, "Shrug", "R", "A", "note")
	e.For("batch").Eventf(nil, nil, v1.EventTypeNormal, "R", "A", "note")
	e.waitForWriters()
	if got := e.server.take(t, 0); len(got) != 0 {
		t.Errorf("sent: %v", got)
	}
}

// sweep does what the ticker of Start does.
func (e *testEnv) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.series.sweep(e.clock.Now()) {
		e.enqueue(o)
	}
}

func toSet(lines []string) map[string]int {
	set := map[string]int{}
	for _, line := range lines {
		set[line]++
	}
	return set
}
