package explanations

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/exactness/hints"
	"github.com/berthdev/berth/test/replay/run"
)

// bedroom is where refused pods sleep: the real queue with the hints of a
// history's plugins, and the real intake, which is told of changes.
type bedroom struct {
	informers map[reflect.Type]*hints.Informer
	queue     *queue.Queue
	// named are the events of each plugin, as explanations name them.
	named map[string][]string
}

// newBedroom asks the plugins of b what wakes the pods that they refuse.
func newBedroom(ctx context.Context, b *run.Berth) (*bedroom, error) {
	registered, err := b.Framework().RegisteredEvents(ctx)
	if err != nil {
		return nil, err
	}
	rules := &queue.Rules{
		Less:           func(a, b fwk.QueuedEntityInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) },
		Hold:           func(*v1.Pod) queue.Hold { return queue.Hold{} },
		PreEnqueue:     func(context.Context, *v1.Pod, string) string { return "" },
		InitialBackoff: time.Second, MaxBackoff: time.Second,
	}
	for _, hint := range registered {
		rules.Hints = append(rules.Hints, queue.Hint{Plugin: hint.Plugin, Event: hint.Event, Fn: hint.QueueingHintFn})
	}
	factory, all := hints.NewInformers()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r := &bedroom{informers: all, queue: queue.New(queue.Options{Clock: clock}), named: profile.RequeueEvents(rules.Hints)}
	r.queue.SetProfile(ctx, b.Blueprint().Name, rules)
	_, err = eventhandlers.New(eventhandlers.Options{
		PendingPods: &eventhandlers.PendingPods{Cache: cache.New(), Queue: r.queue, WaitingPods: framework.NewWaitingPods(clock), Log: logr.Discard()},
		Binding:     hints.NoBinding{},
	}).Register(factory)
	return r, err
}

// wakes says whether a pod that was refused is woken when change happens, after
// which nothing is left of either.
func (r *bedroom) wakes(ctx context.Context, profile string, pod *v1.Pod, unfit *framework.FitError, change func() error) (bool, error) {
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName, pod.Spec.NodeName = profile, ""
	r.queue.Add(ctx, pod)
	attempt := r.queue.TryPop()
	attempt.Refused(ctx, unfit.Diagnosis.UnschedulablePlugins, unfit.Diagnosis.PendingPlugins)
	err := change()
	place := r.queue.Places()[pod.UID]
	r.queue.Delete(pod.UID)
	return place == queue.Active || place == queue.Backoff, err
}

// names says whether what wakes one of the plugins that refused is called event,
// or wider.
func (r *bedroom) names(unfit *framework.FitError, event, wider string) bool {
	for _, plugin := range sets.List(unfit.Diagnosis.UnschedulablePlugins.Union(unfit.Diagnosis.PendingPlugins)) {
		if slices.ContainsFunc(r.named[plugin], func(name string) bool { return name == event || name == wider || name == "*/*" }) {
			return true
		}
	}
	return false
}

func (r *bedroom) nodes() *hints.Informer { return r.informers[reflect.TypeFor[*v1.Node]()] }
func (r *bedroom) pods() *hints.Informer  { return r.informers[reflect.TypeFor[*v1.Pod]()] }
