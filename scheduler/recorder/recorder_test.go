package recorder

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/fixture"
)

func TestTheFieldsOfAnEvent(t *testing.T) {
	w := newTestEnv(t, nil)
	pod := fixture.Pod("shop/web-1").UID("u1").Obj()
	pod.ResourceVersion = "7"
	w.For("batch").Eventf(pod, fixture.Node("n1").Obj(), v1.EventTypeNormal, "Scheduled", "Binding", "assigned to %s", "n1")
	w.waitForWriters()
	want := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-1.%x", w.clock.Now().UnixNano()), Namespace: "shop"},
		EventTime:  metav1.MicroTime{Time: w.clock.Now()}, ReportingController: "batch", ReportingInstance: "batch-host",
		Type: "Normal", Reason: "Scheduled", Action: "Binding", Note: "assigned to n1",
		Regarding: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "shop", Name: "web-1", UID: "u1", ResourceVersion: "7"},
		Related:   &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "n1"},
	}
	got := w.server.stored[want.Name]
	if got != nil && got.Related != nil {
		got.Related.UID, got.Related.ResourceVersion = "", ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Event (-want +got):\n%s", diff)
	}
}

func TestRepeatedEventsBecomeASeries(t *testing.T) {
	type step struct {
		after time.Duration
		tell  bool // else the sweep
		want  []string
	}
	for name, steps := range map[string][]step{
		"two and more within six minutes: the second is written, the rest when it is quiet": {
			{0, true, []string{"create a"}}, {time.Minute, true, []string{"patch a x2"}}, {time.Minute, true, nil}, {time.Minute, true, nil},
			{5 * time.Minute, false, nil}, {time.Minute, false, []string{"patch a x4"}}, {time.Minute, false, nil},
		},
		"after six quiet minutes it is a new Event": {
			{0, true, []string{"create a"}}, {finishTime, true, []string{"create a"}},
		},
		"what was quiet for too long is told before the new one counts": {
			{0, true, []string{"create a"}}, {time.Minute, true, []string{"patch a x2"}}, {time.Minute, true, nil},
			{finishTime, true, []string{"create a", "patch a x3"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t, nil)
			for i, s := range steps {
				w.clock.Step(s.after)
				if s.tell {
					w.recordRefusal("a")
				} else {
					w.sweep()
				}
				w.waitForWriters()
				got := w.server.take(t, 0)
				if diff := cmp.Diff(toSet(s.want), toSet(got)); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestALongSeriesIsRefreshedEveryHalfHour(t *testing.T) {
	w := newTestEnv(t, nil)
	var patches []string
	for range 33 {
		w.recordRefusal("a")
		w.waitForWriters()
		w.clock.Step(time.Minute)
		w.sweep()
		w.waitForWriters()
		patches = append(patches, w.server.take(t, 0)...)
	}
	if diff := cmp.Diff([]string{"create a", "patch a x2", "patch a x32"}, patches); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEventsYieldToBindsButAreStillWritten(t *testing.T) {
	for name, test := range map[string]struct {
		busy bool
		most int
	}{
		"while binds are under way, few are written": {true, minWriters},
		"else as many as writers":                    {false, maxWriters},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestEnv(t, func(o *Options) { o.Busy = func() bool { return test.busy } })
				w.server.gate = make(chan struct{})
				for i := range 100 {
					w.recordRefusal(fmt.Sprint("p", i))
				}
				synctest.Wait()
				if w.server.blocked != test.most {
					t.Errorf("%d are written at once, want %d", w.server.blocked, test.most)
				}
				close(w.server.gate)
				w.waitForWriters()
				if got := len(w.server.take(t, 100)); got != 100 {
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
		"an error of its own":    {apierrors.NewInternalError(fmt.Errorf("no leader")), true},
		"too many requests":      {apierrors.NewTooManyRequests("later", 1), true},
		"no answer":              {fmt.Errorf("connection reset"), true},
		"forbidden":              {apierrors.NewForbidden(events, "a", fmt.Errorf("no")), false},
		"the namespace is going": {apierrors.NewForbidden(events, "a", fmt.Errorf("being terminated")), false},
		"it is there already":    {apierrors.NewAlreadyExists(events, "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t, nil)
			w.server.answers = []error{test.answer}
			w.recordRefusal("a")
			if test.again {
				eventually(t, "the writer pauses", w.clock.HasWaiters)
				w.clock.Step(retryDelay)
			}
			w.waitForWriters()
			want := []string{"create a"}
			if test.again {
				want = append(want, "create a")
			}
			if diff := cmp.Diff(want, w.server.take(t, len(want))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEventThatExpiredIsCreatedAgain(t *testing.T) {
	w := newTestEnv(t, nil)
	w.recordRefusal("a")
	w.waitForWriters()
	clear(w.server.stored)
	w.recordRefusal("a")
	w.waitForWriters()
	if diff := cmp.Diff([]string{"create a", "create a x2"}, w.server.take(t, 2)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEventsBeyondTheLimitAreDropped(t *testing.T) {
	w := newTestEnv(t, func(o *Options) { o.Limit, o.Go = 10, func(func()) {} })
	for i := range 15 {
		w.recordRefusal(fmt.Sprint("p", i))
	}
	if got := w.queue.len(); got != 10 {
		t.Errorf("%d wait, want 10", got)
	}
}

func TestCloseWritesTheEventsThatAreLeft(t *testing.T) {
	w := newTestEnv(t, func(o *Options) { o.Busy = func() bool { return true } })
	for i := range 50 {
		w.recordRefusal(fmt.Sprint("p", i))
	}
	w.Close(context.Background())
	if got := len(w.server.take(t, 50)); got != 50 {
		t.Errorf("%d written, want 50", got)
	}
	w.recordRefusal("late")
	w.waitForWriters()
	if got := w.server.take(t, 0); len(got) != 0 {
		t.Errorf("after the end: %v", got)
	}
}

func TestCloseWritesTheEventThatAWriterRetries(t *testing.T) {
	w := newTestEnv(t, nil)
	w.server.answers = []error{apierrors.NewInternalError(fmt.Errorf("no leader"))}
	w.recordRefusal("a")
	eventually(t, "the writer pauses", w.clock.HasWaiters)
	w.Close(context.Background())
	if diff := cmp.Diff([]string{"create a", "create a"}, w.server.take(t, 0)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAllWritersRunOnceBindsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		w := newTestEnv(t, func(o *Options) { o.Busy = busy.Load })
		w.server.gate = make(chan struct{})
		for i := range 100 {
			w.recordRefusal(fmt.Sprint("p", i))
		}
		busy.Store(false)
		w.server.gate <- struct{}{} // one is written, and nobody tells anything any more
		synctest.Wait()
		if w.server.blocked != maxWriters {
			t.Errorf("%d are written at once, want %d", w.server.blocked, maxWriters)
		}
		close(w.server.gate)
		w.waitForWriters()
	})
}

func TestInvalidEventsAreNotSent(t *testing.T) {
	w := newTestEnv(t, nil)
	w.For("batch").Eventf(fixture.Pod("a").Obj(), nil, "Shrug", "R", "A", "note")
	w.For("batch").Eventf(nil, nil, v1.EventTypeNormal, "R", "A", "note")
	w.waitForWriters()
	if got := w.server.take(t, 0); len(got) != 0 {
		t.Errorf("sent: %v", got)
	}
}

// sweep is a turn of the ticker.
func (w *testEnv) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.series.sweep(w.clock.Now()) {
		w.enqueue(o)
	}
}

func toSet(lines []string) map[string]int {
	set := map[string]int{}
	for _, line := range lines {
		set[line]++
	}
	return set
}
