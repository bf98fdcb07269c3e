// Package offline is the scheduler on objects that it is given, without an API
// server: the live cache, cycle, framework and plugins, driven by hand. Nothing
// is written anywhere, and nothing runs beside the caller.
//
// An attempt ends with the chosen node, or with a plan to make room. What comes
// after that in a cluster (Permit, binding, evictions, conditions) does not happen:
// the caller says what became of it, and whether the plugins reserve what the pod
// takes there.
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

// Options are what a Scheduler is built from.
type Options struct {
	Blueprint *compile.Blueprint
	// Registry holds the plugins that the Blueprint was made from.
	Registry framework.Registry
	// Preempt asks PostFilter plugins about pods that fit nowhere.
	Preempt bool
	// Plain asks every plugin about every node and looks at every pod, each
	// time: the dumb twin of what is remembered and counted.
	Reference bool
	// Recheck computes everything that is remembered again, and fails the
	// attempt where it was wrong.
	Recheck bool
}

// Scheduler is one profile on a cluster that its caller makes up. It is not
// safe for concurrent use.
type Scheduler struct {
	Objects
	options          Options
	framework        *framework.Framework
	cache            *cache.Cache
	cycle            cycle.Cycle
	equivalenceCache *cycle.EquivalenceCache
	mismatches       uint64 // how much of what memo remembered was wrong
	preemptor        *dryRunPreemptor
	unsupported      func(*v1.Pod) (field, why string)
	// info is the pod of the last attempt.
	info *framework.PodInfo
	// request is the last attempt.
	request cycle.Request
}

// New builds the plugins, which live until ctx ends, on an empty cluster.
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
	known := volumes.New(volumes.Options{Client: client, Clock: clock.RealClock{}})
	if err := known.UseInformers(s.Factory.Core().V1().PersistentVolumes().Informer(), s.Factory.Core().V1().PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	blueprint := options.Blueprint
	s.framework, err = framework.New(ctx,
		framework.Config{Profile: blueprint.Name, Chains: blueprint.Chains, Args: blueprint.Args}, options.Registry,
		framework.Host{
			Client: client, KubeConfig: config, Informers: s.Factory, Recorder: &events.FakeRecorder{},
			Lister: s.cache.Snapshot(), Nominator: s.cache.Nominator, Activator: noopActivator{},
			WaitingPods: framework.NewWaitingPods(clock.RealClock{}), PodsInPreBind: framework.NewPodsInPreBind(),
			Preemptor: s.preemptor, Volumes: known, Clock: clock.RealClock{},
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

// Blueprint is what the plugins were built from.
func (s *Scheduler) Blueprint() *compile.Blueprint { return s.options.Blueprint }

// Framework is what the profile's plugins know as their Handle.
func (s *Scheduler) Framework() *framework.Framework { return s.framework }

// Nodes are all nodes as of the last Refresh.
func (s *Scheduler) Nodes() ([]fwk.NodeInfo, error) { return s.cache.Snapshot().Nodes(), nil }

// StartAt lets the next attempt's walk over the nodes start at this index.
func (s *Scheduler) StartAt(start int) { s.cycle.SetNextStartNodeIndex(start) }

// NodeOrder is the order in which nodes are tried.
type NodeOrder = cache.NodeOrder

// NewNodeOrder returns that of no nodes.
func NewNodeOrder() *NodeOrder { return cache.NewNodeOrder() }

// Memo is what is remembered; nil where nothing is.
func (s *Scheduler) EquivalenceCache() *cycle.EquivalenceCache { return s.equivalenceCache }

var errNoAPIServer = errors.New("there is no API server: the scheduler runs on objects that it was given")

// refusing lets no request out.
type refusingTransport struct{}

func (refusingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close() // nothing is read from it
	}
	return nil, errNoAPIServer
}

// nobodyAnswers is a client for plugins that insist on one, and for informers
// that never start.
func newRefusingClient() (*restclient.Config, clientset.Interface, error) {
	config := &restclient.Config{Host: "https://offline.invalid", QPS: -1, Transport: refusingTransport{}}
	client, err := clientset.NewForConfig(config)
	return config, client, err
}

// nobodyWaits has no queue.
type noopActivator struct{}

func (noopActivator) Activate(klog.Logger, map[string]*v1.Pod) {}
