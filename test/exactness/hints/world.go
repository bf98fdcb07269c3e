package hints

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/replay/run"
)

// world is a cluster and the rooms that a waiting pod has to do with: intake,
// cache, queue, and a profile of one plugin.
type world struct {
	plugin    string
	informers map[reflect.Type]*Informer
	cache     *cache.Cache
	queue     *queue.Queue
	profile   *profile.Generation
	rules     *queue.Rules
	clock     *clocktesting.FakeClock
	version   int

	// waiting are the pods that the plugin keeps from a node at least, and
	// what it said last.
	waiting map[types.UID]verdict
	// gone are pods that wait no more, newest last.
	gone   []*v1.Pod
	counts counts
}

// newWorld returns an empty cluster. The plugin does not hear of the event
// without, should it have registered for it.
func newWorld(ctx context.Context, plugin string, config run.Config, without fwk.ClusterEvent) (*world, error) {
	registry := plugins.InTree()
	blueprint, rejection := compile.Profile(compile.Input{Profile: config.Profile, Configs: config.Configs, Registry: registry})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	factory, all := NewInformers()
	w := &world{
		plugin: plugin, informers: all, cache: cache.New(), waiting: map[types.UID]verdict{},
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	w.queue = queue.New(queue.Options{Clock: w.clock})
	waiting := framework.NewWaitingPods(w.clock)
	room := volumes.New(volumes.Options{Clock: w.clock})
	core := factory.Core().V1()
	if err := room.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	profiles := profile.NewSet(profile.Options{
		Registry: registry, Queue: adopter{w, without}, Clock: w.clock, Log: logr.Discard(),
		Hosts: oneHost{
			Informers: factory, Lister: w.cache.Snapshot(), Nominator: w.cache.Nominator,
			WaitingPods: waiting, PodsInPreBind: framework.NewPodsInPreBind(), Volumes: room, Clock: w.clock,
		},
		Unsupported: func(*v1.Pod) (string, string) { return "", "" },
	})
	if err := profiles.Apply(ctx, blueprint); err != nil {
		return nil, err
	}
	w.profile, _ = profiles.Acquire(blueprint.Name)
	ear := eventhandlers.New(eventhandlers.Options{
		PendingPods: &eventhandlers.PendingPods{Cache: w.cache, Queue: w.queue, WaitingPods: waiting, Log: logr.Discard()},
		Binding:     NoBinding{},
		Storage: eventhandlers.AllStorage(),
	})
	_, err := ear.Register(factory)
	return w, err
}

// oneHost is the Host of every profile.
type oneHost framework.Host

func (h oneHost) HostFor(string) framework.Host { return framework.Host(h) }

// NoBinding implements eventhandlers.Binding where no pod is bound.
type NoBinding struct{}

func (NoBinding) Observe(*v1.Pod)  {}
func (NoBinding) Forget(types.UID) {}

// adopter is the queue as a profile's Set knows it, but for the events that the
// plugins go without.
type adopter struct {
	*world
	without fwk.ClusterEvent
}

func (a adopter) SetProfile(ctx context.Context, name string, rules *queue.Rules) {
	for i := range rules.Hints {
		if event := &rules.Hints[i].Event; event.Resource == a.without.Resource {
			event.ActionType &^= a.without.ActionType
		}
	}
	a.rules = rules
	a.queue.SetProfile(ctx, name, rules)
}

func (a adopter) RecheckHolds(ctx context.Context, name, _ string) {
	a.queue.Reconsider(ctx, name, func(*v1.Pod) bool { return true })
}

func (a adopter) RecheckGates(ctx context.Context, uid types.UID) { a.queue.GateOpened(ctx, uid) }

func (a adopter) HoldProfile(_ context.Context, name string, hold queue.Hold) {
	a.queue.HoldProfile(name, hold)
}

func (a adopter) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	a.queue.RemoveProfile(name, hold)
}
