package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/test/support/fixture"
)

const (
	benchWaiting  = 100_000
	benchMeasured = 2_000
)

// swapBench is a queue with two profiles: one whose pods wait, and one whose pods come at
// 1,000 a second and are first in order.
type swapBench struct {
	*Queue
	ctx      context.Context
	measured []*v1.Pod
	// numbers are the indexes of the measured pods.
	numbers map[types.UID]int
}

func newSwapBench(ctx context.Context) *swapBench {
	e := &swapBench{Queue: New(Options{Clock: clock.RealClock{}}), ctx: klog.NewContext(ctx, logr.Discard()), numbers: map[types.UID]int{}}
	e.SetProfile(e.ctx, "waiting", e.rulesOf(0))
	e.SetProfile(e.ctx, "measured", e.rulesOf(0))
	for i := range benchWaiting {
		e.Add(e.ctx, fixture.Pod(fmt.Sprint("waiting-", i)).SchedulerName("waiting").Obj())
		e.TryPop().Refused(e.ctx, sets.New("Fit"), nil)
	}
	for i := range benchMeasured {
		pod := fixture.Pod(fmt.Sprint("measured-", i)).SchedulerName("measured").Priority(1).Obj()
		e.measured, e.numbers[pod.UID] = append(e.measured, pod), i
	}
	return e
}

// rulesOf returns rules with other arguments of the plugin that refuses the waiting pods for
// each version: a swap from one to the next requeues all of them.
func (e *swapBench) rulesOf(version int) *Rules {
	return &Rules{
		Sort: "Priority", Less: byPriority, Hash: fmt.Sprint(version),
		Key:        ProfileKey{Plugins: map[string]string{"Fit": fmt.Sprint(version)}},
		Hold:       func(*v1.Pod) Hold { return Hold{} },
		PreEnqueue: func(context.Context, *v1.Pod, string) string { return "" },
	}
}

// latencies adds the measured pods as an informer does, beside a loop that pops until each was
// popped. It returns how long each took.
func (e *swapBench) latencies() []time.Duration {
	var added [benchMeasured]time.Time
	go func() {
		start := time.Now()
		for i, pod := range e.measured {
			due := start.Add(time.Duration(i) * time.Millisecond)
			added[i] = due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				added[i] = time.Now() // the timer's delay is not the queue's
			}
			e.Add(e.ctx, pod)
		}
	}()
	var took []time.Duration
	for len(took) < benchMeasured {
		a := e.Pop(e.ctx)
		if a.Pod.Spec.SchedulerName == "measured" {
			took = append(took, time.Since(added[e.numbers[a.Pod.UID]]))
			a.Done()
		} else {
			a.Refused(e.ctx, sets.New("Fit"), nil)
		}
	}
	slices.Sort(took)
	return took
}

// BenchmarkPopBesideSwaps measures how long the pods of a profile wait for the loop while another
// profile with 100,000 waiting pods is swapped again and again, and while it is not.
func BenchmarkPopBesideSwaps(b *testing.B) {
	e := newSwapBench(b.Context())
	var alone, beside []time.Duration
	swaps, version := 0, 0
	for b.Loop() {
		runtime.GC() // what the last swaps left must not count
		alone = append(alone, e.latencies()...)
		ctx, stop := context.WithCancel(e.ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				version++
				e.SetProfile(e.ctx, "waiting", e.rulesOf(version))
				swaps++
			}
		}()
		beside = append(beside, e.latencies()...)
		stop()
		<-ended
		for a := e.TryPop(); a != nil; a = e.TryPop() {
			a.Refused(e.ctx, sets.New("Fit"), nil)
		}
	}
	slices.Sort(alone)
	slices.Sort(beside)
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		at := int(q.part*float64(len(alone))) - 1
		b.ReportMetric(float64(alone[at].Nanoseconds())/1000, q.name+"-alone-µs")
		b.ReportMetric(float64(beside[at].Nanoseconds())/1000, q.name+"-beside-µs")
	}
	b.ReportMetric(float64(swaps)/float64(b.N), "swaps")
	b.ReportMetric(0, "ns/op")
}
