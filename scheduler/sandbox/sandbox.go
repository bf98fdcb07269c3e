// Package sandbox runs the scheduler on objects that its caller provides, without an API
// server: the real cache, scheduling cycle, framework and plugins, called synchronously.
// It writes nothing and starts no goroutines.
//
// An attempt ends with the selected node or with a preemption plan. The later steps
// (Permit, binding, eviction, conditions) do not run: the caller reports what became of
// the pod, and decides whether the Reserve plugins run.
package sandbox

import (
	"context"
	"errors"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Options configure a Scheduler.
type Options struct {
	Blueprint *compile.Blueprint
	// Registry is the registry with which the Blueprint was compiled.
	Registry framework.Registry
	// Preempt runs the PostFilter plugins for pods that fit on no node.
	Preempt bool
	// Reference selects the reference implementation: every plugin runs for every node
	// and reads every pod, without caches, columns or counts.
	Reference bool
	// Recheck recomputes every cached verdict and fails the attempt if one is wrong.
	Recheck bool
}

// Scheduler is the scheduler of one profile on a cluster that its caller provides. It is
// not safe for concurrent use.
type Scheduler struct {
	Objects
	options          Options
	framework        *framework.Framework
	cache            *cache.Cache
	cycle            cycle.Cycle
	equivalenceCache *cycle.EquivalenceCache
	mismatches       uint64 // wrong verdicts of the equivalence cache so far
	preemptor        *dryRunPreemptor
	unsupported      func(*v1.Pod) (field, why string)
	// info is the PodInfo of the last attempt.
	info *framework.PodInfo
	// request is the request of the last attempt.
	request cycle.Request
}

// New builds the plugins on an empty cluster. They live until ctx ends.
func New(ctx context.Context, options Options) (*Scheduler, error) {
	config, client, err := newRefusingClient()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		Objects: Objects{informers.NewSharedInformerFactory(client, 0)},
		options: options,
		cache:   cache.New(),
	}
	if options.Reference {
		s.cache = cache.NewWithScanCounts()
	}
	s.preemptor = s.newDryRunPreemptor()
	s.unsupported = plugins.Unsupported(options.Registry, s.backedByDeviceClass)
	vols := volumes.New(volumes.Options{Client: client, Clock: clock.RealClock{}})
	if err := vols.UseInformers(s.Factory.Core().V1().PersistentVolumes().Informer(), s.Factory.Core().V1().PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	blueprint := options.Blueprint
	s.framework, err = framework.New(ctx,
		framework.Config{Profile: blueprint.Name, Chains: blueprint.Chains, Args: blueprint.Args}, options.Registry,
		framework.Host{
			Client: client, KubeConfig: config, Informers: s.Factory, Recorder: &events.FakeRecorder{},
			Lister: s.cache.Snapshot(), Nominator: s.cache.Nominator, Activator: noopActivator{},
			WaitingPods: framework.NewWaitingPods(clock.RealClock{}), PodsInPreBind: framework.NewPodsInPreBind(),
			Preemptor: s.preemptor, Volumes: vols, Clock: clock.RealClock{},
		})
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
func (s *Scheduler) Nodes() ([]fwk.NodeInfo, error) { return s.cache.Snapshot().Nodes(), nil }

// StartAt sets the index of the node at which the next attempt starts.
func (s *Scheduler) StartAt(start int) { s.cycle.SetNextStartNodeIndex(start) }

// NodeOrder is the order in which the cycle visits nodes.
type NodeOrder = cache.NodeOrder

// NewNodeOrder returns an empty NodeOrder.
func NewNodeOrder() *NodeOrder { return cache.NewNodeOrder() }

// EquivalenceCache is the cache of verdicts; nil with Options.Reference.
func (s *Scheduler) EquivalenceCache() *cycle.EquivalenceCache { return s.equivalenceCache }

var errNoAPIServer = errors.New("there is no API server: the scheduler runs on objects that it was given")

// refusingTransport fails all requests.
type refusingTransport struct{}

func (refusingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close() // RoundTrip must close the body
	}
	return nil, errNoAPIServer
}

// newRefusingClient returns a client that fails all requests, for plugins that need one and
// for informers that are never started.
func newRefusingClient() (*restclient.Config, clientset.Interface, error) {
	config := &restclient.Config{Host: "https://offline.invalid", QPS: -1, Transport: refusingTransport{}}
	client, err := clientset.NewForConfig(config)
	return config, client, err
}

// noopActivator activates no pods, since there is no queue.
type noopActivator struct{}

func (noopActivator) Activate(klog.Logger, map[string]*v1.Pod) {}
