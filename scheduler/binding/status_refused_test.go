package binding

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/test/support/fixture"
)

// refusingCluster is an API server that fails all patches in the namespace "refused".
type refusingCluster struct {
	*fake.Clientset
	failed, written int
}

func newRefusingCluster(answer error) *refusingCluster {
	c := &refusingCluster{Clientset: fake.NewClientset()}
	c.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() != "refused" {
			c.written++
			return true, &v1.Pod{}, nil
		}
		if action.GetVerb() == "patch" {
			c.failed++
			return true, nil, answer
		}
		name := action.(clienttesting.GetAction).GetName()
		return true, fixture.Pod("refused/" + name).Obj(), nil
	})
	return c
}

// setStatuses updates the status of n pods, and returns when the workers wait.
func setStatuses(b *Binding, namespace string, n int) {
	for i := range n {
		b.SetNotScheduled(fixture.Pod(namespace+"/web-"+strconv.Itoa(i)).Obj(), "Unschedulable", "no node fits", nil)
	}
	synctest.Wait()
}

func TestAStatusIsWrittenAtOnceWhileOthersAreNeverTaken(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		// since is for how long these failed before.
		since time.Duration
	}{
		"a webhook has just denied them":                 {answer: denied},
		"a webhook has denied them for minutes":          {answer: denied, since: 10 * time.Minute},
		"Berth's role has just been taken away":          {answer: forbidden},
		"the API server failed at them for minutes":      {answer: internal, since: 10 * time.Minute},
		"the API server was too busy for minutes":        {answer: apierrors.NewTooManyRequests("later", 1), since: 10 * time.Minute},
		"the API server was silent for them for minutes": {answer: apierrors.NewTimeoutError("webhook", 1), since: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newRefusingCluster(c.answer)
				b := New(Options{Client: cluster, Cache: cache.New(), Clock: clock.RealClock{}, Go: func(work func()) { go work() }})
				setStatuses(b, "refused", 1000)
				time.Sleep(c.since)
				setStatuses(b, "shop", 20)
				if cluster.written != 20 {
					t.Errorf("%d of 20 statuses are written", cluster.written)
				}
				b.forgetAll("refused", 1000)
			})
		})
	}
}

// forgetAll has all workers end, by forgetting n pods.
func (b *Binding) forgetAll(namespace string, n int) {
	for i := range n {
		b.Forget(fixture.Pod(namespace + "/web-" + strconv.Itoa(i)).Obj().UID)
	}
	time.Sleep(time.Minute)
}

func TestAFailingAPIServerIsSpared(t *testing.T) {
	for name, answer := range map[string]error{
		"that has an internal error": internal,
		"that knows no such user":    apierrors.NewUnauthorized("the token has expired"),
		"that is too busy":           apierrors.NewTooManyRequests("later", 1),
		"that nobody reaches":        &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newRefusingCluster(answer)
				b := New(Options{Client: cluster, Cache: cache.New(), Clock: clock.RealClock{}, Go: func(work func()) { go work() }})
				setStatuses(b, "refused", 1000)
				if cluster.failed != maxStatusWorkers {
					t.Errorf("%d requests were sent at once, want one of each of the %d workers", cluster.failed, maxStatusWorkers)
				}
				b.forgetAll("refused", 1000)
			})
		})
	}
}
