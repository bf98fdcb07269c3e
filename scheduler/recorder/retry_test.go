package recorder

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

var errWebhookDown = apierrors.NewInternalError(fmt.Errorf("failed calling webhook"))

// newRefusingEnv is newTestEnv with the clock of a synctest bubble and an API server that refuses
// all Events of the namespace "refused".
func newRefusingEnv(t *testing.T, change func(*Options)) *testEnv {
	e := newTestEnv(t, func(o *Options) {
		o.Clock = clock.RealClock{}
		if change != nil {
			change(o)
		}
	})
	e.server.refusal = errWebhookDown
	return e
}

// recordAll records Events about n pods of a namespace, one after the other.
func (e *testEnv) recordAll(namespace string, n int) {
	for i := range n {
		e.recordRefusal(fmt.Sprintf("%s/%s-%d", namespace, namespace, i))
		synctest.Wait()
	}
}

// storedIn returns how many Events of a namespace the server has.
func (e *testEnv) storedIn(namespace string) (n int) {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	for _, event := range e.server.stored {
		if event.Namespace == namespace {
			n++
		}
	}
	return n
}

func TestAnEventIsWrittenAtOnceWhileOthersAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		busy   bool
		limit  int
		// since is for how long these were refused before.
		since time.Duration
	}{
		"a webhook has just failed for them":                       {answer: errWebhookDown},
		"a webhook has failed for them for a minute":               {answer: errWebhookDown, since: time.Minute},
		"a webhook has failed for them while binds never stop":     {answer: errWebhookDown, since: time.Minute, busy: true},
		"a webhook has failed for more of them than may wait":      {answer: errWebhookDown, limit: 20},
		"the API server answered to them that it is too busy":      {answer: apierrors.NewTooManyRequests("later", 1)},
		"the API server waited for a webhook for them, in vain":    {answer: apierrors.NewTimeoutError("webhook", 1), since: time.Minute},
		"a webhook has failed for them until they were given up":   {answer: errWebhookDown, since: time.Hour},
		"a policy denies them, with an error that does not change": {answer: apierrors.NewBadRequest("denied")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newRefusingEnv(t, func(o *Options) { o.Limit, o.Busy = test.limit, func() bool { return test.busy } })
				e.server.refusal = test.answer
				e.recordAll("refused", 100)
				time.Sleep(test.since)
				e.recordAll("shop", 5)
				if got := e.storedIn("shop"); got != 5 {
					t.Errorf("%d of 5 Events are written", got)
				}
			})
		})
	}
}

func TestRepetitionsOfRefusedEventsLeaveWritersForOthers(t *testing.T) {
	for name, test := range map[string]struct {
		busy bool
		// answers are how many requests are answered from the time that the repetitions are due, want
		// how many were sent since then in each namespace.
		answers int
		want    map[string]int
	}{
		"two of sixteen writers repeat":             {want: map[string]int{"refused": 2, "shop": 14}},
		"beside binds, the writer repeats first":    {busy: true, want: map[string]int{"refused": 1}},
		"beside binds, it writes another then":      {busy: true, answers: 1, want: map[string]int{"refused": 1, "shop": 1}},
		"beside binds, it takes turns from then on": {busy: true, answers: 5, want: map[string]int{"refused": 3, "shop": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var busy atomic.Bool
				e := newRefusingEnv(t, func(o *Options) { o.Busy = busy.Load })
				e.recordAll("before", 2*maxWriters)
				e.recordAll("refused", 20)
				busy.Store(test.busy)
				e.server.take(t, 0)
				gate := make(chan struct{})
				e.server.set(func() { e.server.gate = gate })
				time.Sleep(retryDelay)
				synctest.Wait()
				e.recordAll("shop", 20)
				for range test.answers {
					gate <- struct{}{}
					synctest.Wait()
				}
				got := map[string]int{}
				for _, request := range e.server.take(t, 0) {
					namespace, _, _ := strings.Cut(strings.TrimPrefix(request, "create "), "-")
					got[namespace]++
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				close(gate)
			})
		})
	}
}

func TestRefusedEventsAreWrittenWhenTheWebhookIsBack(t *testing.T) {
	for name, test := range map[string]struct {
		then func(e *testEnv)
	}{
		"while Berth runs": {func(*testEnv) { time.Sleep(retryDelay) }},
		"as Berth ends":    {func(e *testEnv) { e.Close(context.Background()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newRefusingEnv(t, nil)
				e.recordAll("refused", 50)
				e.server.set(func() { e.server.refusal = nil })
				test.then(e)
				synctest.Wait()
				if got := e.storedIn("refused"); got != 50 {
					t.Errorf("%d of 50 Events are written", got)
				}
			})
		})
	}
}

func TestAnAPIServerThatIsNotReachedIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newRefusingEnv(t, nil)
		e.server.refusal = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		e.recordAll("refused", 20)
		if got := len(e.server.take(t, 0)); got != minWriters {
			t.Errorf("%d requests were sent at once, want %d", got, minWriters)
		}
	})
}
