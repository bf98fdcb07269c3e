// Package hints tests that no requeue of a refused pod is missed. Random changes happen to
// small clusters with pods that one plugin refused. When a change makes a node feasible for a
// pod by that plugin, the pod must be requeued: the event passes through the real event
// handlers, and the real queue matches it with the events of the plugin and calls its hint.
//
// The plugin is alone in its profile. For a pod that it refuses on some nodes only, the other
// nodes are taken to be refused by another plugin, so that each node that becomes feasible
// counts, not only the first.
package hints

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/volumes"
	"github.com/berthdev/berth/test/replay/run"
)

// testEnv is a cluster with event handlers, cache and queue, and a profile with one plugin.
type testEnv struct {
	plugin    string
	informers map[reflect.Type]*Informer
	cache     *cache.Cache
	queue     *queue.Queue
	profile   *profile.Generation
	rules     *queue.Rules
	clock     *clocktesting.FakeClock
	version   int

	// waiting are the pods that the plugin refuses for at least one node, with its last
	// verdict.
	waiting map[types.UID]verdict
	// finished are pods that are not pending any more, newest last.
	finished []*v1.Pod
	counts   counts
}

// newTestEnv returns an empty cluster. The plugin does not get the events of without.
func newTestEnv(ctx context.Context, plugin string, config run.Config, without fwk.ClusterEvent) (*testEnv, error) {
	registry := plugins.InTree()
	blueprint, rejection := compile.Profile(compile.Input{Profile: config.Profile, Configs: config.Configs, Registry: registry})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	factory, all := NewInformers()
	env := &testEnv{
		plugin: plugin, informers: all, cache: cache.New(), waiting: map[types.UID]verdict{},
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	env.queue = queue.New(queue.Options{Clock: env.clock})
	waiting := framework.NewWaitingPods(env.clock)
	assumed := volumes.New(volumes.Options{Clock: env.clock})
	core := factory.Core().V1()
	if err := assumed.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	allocated := devices.New(devices.Options{Clock: env.clock, Queue: env.queue})
	profiles := profile.NewSet(profile.Options{
		Registry: registry, Queue: profileQueue{env, without}, Clock: env.clock, Log: logr.Discard(),
		Hosts: oneHost{
			Informers: factory, Lister: env.cache.Snapshot(), Nominator: env.cache.Nominator,
			WaitingPods: waiting, PodsInPreBind: framework.NewPodsInPreBind(), Volumes: assumed, Devices: allocated, Clock: env.clock,
		},
		Unsupported: func(*v1.Pod) (string, string) { return "", "" },
	})
	if err := profiles.Apply(ctx, blueprint); err != nil {
		return nil, err
	}
	env.profile, _ = profiles.Acquire(blueprint.Name)
	handlers := eventhandlers.New(eventhandlers.Options{
		PendingPods: &eventhandlers.PendingPods{Cache: env.cache, Queue: env.queue, WaitingPods: waiting, Log: logr.Discard()},
		Binding:     NoBinding{},
		Storage:     eventhandlers.AllStorage(),
		WatchDevices: func(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
			kinds := factory.Resource().V1()
			return allocated.UseInformers(devices.Informers{
				Claims: kinds.ResourceClaims().Informer(), Slices: kinds.ResourceSlices().Informer(),
				Classes: kinds.DeviceClasses().Informer(), Rules: kinds.DeviceTaintRules().Informer(),
			})
		},
	})
	_, err := handlers.Register(factory)
	return env, err
}

// oneHost is the Host of every profile.
type oneHost framework.Host

func (h oneHost) HostFor(string) framework.Host { return framework.Host(h) }

// NoBinding implements eventhandlers.Binding where no pod is bound.
type NoBinding struct{}

func (NoBinding) Observe(*v1.Pod)  {}
func (NoBinding) Forget(types.UID) {}

// profileQueue passes a profile's hints to the queue without the events of without.
type profileQueue struct {
	*testEnv
	without fwk.ClusterEvent
}

func (a profileQueue) SetProfile(ctx context.Context, name string, rules *queue.Rules) {
	for i := range rules.Hints {
		if event := &rules.Hints[i].Event; event.Resource == a.without.Resource {
			event.ActionType &^= a.without.ActionType
		}
	}
	a.rules = rules
	a.queue.SetProfile(ctx, name, rules)
}

func (a profileQueue) RecheckHolds(ctx context.Context, name, _ string) {
	a.queue.Reconsider(ctx, name, func(*v1.Pod) bool { return true })
}

func (a profileQueue) RecheckGates(ctx context.Context, uid types.UID) { a.queue.GateOpened(ctx, uid) }

func (a profileQueue) HoldProfile(_ context.Context, name string, hold queue.Hold) {
	a.queue.HoldProfile(name, hold)
}

func (a profileQueue) ReleaseProfile(ctx context.Context, name string) {
	a.queue.ReleaseProfile(ctx, name)
}

func (a profileQueue) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	a.queue.RemoveProfile(name, hold)
}
