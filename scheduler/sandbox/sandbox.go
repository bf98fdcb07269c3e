// Package sandbox runs a scheduler on a copy of the cluster: the real cache, scheduling
// cycle, framework and plugins. It binds, writes and counts nothing.
//
// A Cluster is a copy of the live cluster, on which the plugins of a profile that does not
// run yet are evaluated for real pods: its pending pods and some of its running ones.
//
// A Scheduler of New has the objects that its caller provides, without an API server. It
// is called synchronously and starts no goroutines. An attempt ends with the selected node
// or with a preemption plan. The later steps (Permit, binding, eviction, conditions) do not
// run: the caller reports what became of the pod, and decides whether the Reserve plugins
// run.
package sandbox

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Options configure a Scheduler.
type Options struct {
	Blueprint *compile.Blueprint
	// Registry is the registry with which the Blueprint was compiled.
	Registry framework.Registry
	// Unsupported returns a function that returns the field of a pod that no plugin of a
	// registry supports, and why. Such pods are not tried. If nil, all pods are.
	Unsupported func(registry framework.Registry) func(*v1.Pod) (field, why string)
	// Preempt runs the PostFilter plugins for pods that fit on no node.
	Preempt bool
	// Reference selects the reference implementation: every plugin runs for every node
	// and reads every pod, without caches, columns or counts.
	Reference bool
	// Recheck recomputes every cached verdict and fails the attempt if one is wrong.
	Recheck bool
}

// Scheduler is the scheduler of one profile on a Cluster. It is not safe for concurrent
// use.
type Scheduler struct {
	Objects
	options                  Options
	cluster                  *Cluster
	framework                *framework.Framework
	percentageOfNodesToScore int32
	cycle                    cycle.Cycle
	equivalenceCache         *cycle.EquivalenceCache
	mismatches               uint64 // wrong verdicts of the equivalence cache so far
	preemptor                *dryRunPreemptor
	devices                  *devices.Devices
	unsupported              func(*v1.Pod) (field, why string) // may be nil
	// info is the PodInfo of the last attempt.
	info *framework.PodInfo
	// request is the request of the last attempt.
	request cycle.Request
}

// New builds the plugins on an empty Cluster. They live until ctx ends.
func New(ctx context.Context, options Options) (*Scheduler, error) {
	config, client := NewRefusingClient(nil)
	blueprint := options.Blueprint
	s := &Scheduler{
		Objects:                  NewObjects(client),
		options:                  options,
		cluster:                  &Cluster{cache: cache.New()},
		percentageOfNodesToScore: blueprint.PercentageOfNodesToScore,
	}
	if options.Reference {
		s.cluster.cache = cache.NewWithScanCounts()
	}
	s.preemptor = s.newDryRunPreemptor()
	if options.Unsupported != nil {
		s.unsupported = options.Unsupported(options.Registry)
	}
	vols := volumes.New(volumes.Options{Client: client, Clock: clock.RealClock{}})
	err := vols.UseInformers(s.Factory.Core().V1().PersistentVolumes().Informer(), s.Factory.Core().V1().PersistentVolumeClaims().Informer())
	if err != nil {
		return nil, err
	}
	if s.devices, err = s.newDevices(client); err != nil {
		return nil, err
	}
	s.cluster.host = framework.Host{
		Client: client, KubeConfig: config, Informers: s.Factory, Preemptor: s.preemptor, Volumes: vols, Devices: s.devices.Offline(), Groups: s.cluster.cache.Groups(), Clock: clock.RealClock{},
	}
	s.framework, err = framework.New(ctx, framework.Config{Profile: blueprint.Name, Chains: blueprint.Chains, Args: blueprint.Args},
		options.Registry, s.cluster.Host())
	if err != nil {
		return nil, err
	}
	if !options.Reference {
		s.equivalenceCache = cycle.NewEquivalenceCache(s.framework)
	}
	if s.equivalenceCache != nil && options.Recheck {
		s.equivalenceCache.SetRecheckEvery(1)
	}
	return s, nil
}

// Blueprint is the Blueprint of the plugins.
func (s *Scheduler) Blueprint() *compile.Blueprint { return s.options.Blueprint }

// Framework is the Handle of the plugins.
func (s *Scheduler) Framework() *framework.Framework { return s.framework }

// Nodes are all nodes of the last UpdateSnapshot.
func (s *Scheduler) Nodes() []fwk.NodeInfo { return s.cluster.cache.Snapshot().Nodes() }

// StartAt sets the index of the node at which the next attempt starts.
func (s *Scheduler) StartAt(start int) { s.cycle.SetNextStartNodeIndex(start) }

// EquivalenceCache is the cache of verdicts; nil with Options.Reference.
func (s *Scheduler) EquivalenceCache() *cycle.EquivalenceCache { return s.equivalenceCache }
