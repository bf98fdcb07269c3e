// Package framework is Berth's runtime of the contract that kube-scheduler
// publishes in k8s.io/kube-scheduler/framework: the data that plugins see, the
// chains in which they are called, and the Handle they are given.
//
// A call of a plugin is recovered, attributed and timed here; what calls mean
// for a pod is decided by those who ask: cycle, binding and queue.
package framework

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Host is what the house lends to the plugins of every generation. All of it
// outlives them.
type Host struct {
	Client     clientset.Interface
	KubeConfig *restclient.Config
	Informers  informers.SharedInformerFactory
	Recorder   events.EventRecorderLogger
	// Lister is the cluster as of the last cache.Refresh.
	Lister fwk.SharedLister
	// Lent is the same for plugins that are not built in; nil: Lister is theirs.
	PinnedLister  PinnedLister
	Nominator     fwk.PodNominator
	Activator     fwk.PodActivator
	WaitingPods   *WaitingPods
	PodsInPreBind *PodsInPreBind
	// Preemptor evicts pods; nil where nobody may be evicted.
	Preemptor Preemptor
	// Volumes knows what claims hold; nil where no plugin asks.
	Volumes Volumes
	// Poisoned is told of a call about a pod that panicked or did not come
	// back. It is called from anywhere, without a lock; may be nil.
	OnPluginFault func(pod *v1.Pod, p PluginFault)
	// SortBroken is told once why the QueueSort plugin is not asked any more. It
	// is called under the queue's lock and must not block; may be nil.
	OnQueueSortFault func(err *QueueSortError)
	Clock            clock.WithTickerAndDelayedExecution
	// Go starts work beside the caller; nil means Goroutine. Wait waits for such
	// work; nil means Block.
	Go   func(work func())
	Wait WaitFunc
}

// Config says which plugins a Framework runs, and how.
type Config struct {
	// Profile is the name that metrics and plugins know the profile by.
	Profile string
	Chains  Chains
	// Args holds each plugin's decoded arguments.
	Args map[string]runtime.Object
	// Prints tell by name whether a plugin is what it was: another print,
	// another plugin. May be nil.
	Fingerprints map[string]string
	// Building is told of each plugin before its constructor is called, so
	// that one which does not return has a name; may be nil.
	OnBuild func(plugin string)
	// Extenders are asked beside the plugins, in this order; they are closed with
	// the Framework.
	Extenders []fwk.Extender
	// Trial is set where the plugins are only on trial; see OnTrial.
	Trial *Trial
}

// Framework is one set of plugin instances and the chains they stand in. It
// belongs to one generation of one profile and never changes.
type Framework struct {
	Host
	profile string
	ctx     context.Context
	// successes are the observers of points that every attempt passes.
	successObservers map[string]prometheus.Observer
	// questions are what counts the questions to each plugin at a point.
	evaluationCounters map[Call]prometheus.Counter
	plugins            []fwk.Plugin // in the order in which they were built
	opaquePlugins      opaquePluginSet
	// withVolumes are opaques for pods that have volumes.
	opaqueWithVolumes  opaquePluginSet
	extenders          []fwk.Extender
	resourceReporters  []resourceReporter
	permanentRejecters []permanentRejecter
	fingerprints       map[string]string
	outOfTree          sets.Set[string] // the plugins that are not built in
	trial              *Trial           // nil where the plugins decide
	// brokenSort is why the QueueSort plugin is not asked any more.
	queueSortFault atomic.Pointer[QueueSortError]

	preEnqueue []fwk.PreEnqueuePlugin
	sort       fwk.QueueSortPlugin
	preFilter  []fwk.PreFilterPlugin
	filter     []countedFilter
	postFilter []fwk.PostFilterPlugin
	preScore   []fwk.PreScorePlugin
	score      []weightedScore
	reserve    []fwk.ReservePlugin
	permit     []fwk.PermitPlugin
	preBind    []fwk.PreBindPlugin
	bind       []fwk.BindPlugin
	postBind   []fwk.PostBindPlugin
}

// filterer is a Filter plugin and who counts the nodes that it is asked about.
type countedFilter struct {
	fwk.FilterPlugin
	evaluations prometheus.Counter
}

// scorer is a Score plugin and the weight of its normalised score.
type weightedScore struct {
	fwk.ScorePlugin
	name   string
	weight int64
}

// New builds the plugins that c names, each once, and their chains. ctx must
// live as long as the Framework. When a plugin cannot be built, those that
// were are closed and the error is a *PluginError.
func New(ctx context.Context, c Config, registry Registry, host Host) (*Framework, error) {
	if host.Go == nil {
		host.Go = Goroutine
	}
	if host.Wait == nil {
		host.Wait = Block
	}
	f := &Framework{Host: host, profile: c.Profile, ctx: ctx, fingerprints: c.Fingerprints, outOfTree: sets.New[string](), trial: c.Trial, extenders: c.Extenders}
	if !f.OnTrial() {
		f.successObservers = successObservers(c.Profile)
	}
	built := map[string]fwk.Plugin{}
	for _, point := range Points {
		for _, entry := range c.Chains[point] {
			if built[entry.Name] != nil {
				continue
			}
			if c.OnBuild != nil {
				c.OnBuild(entry.Name)
			}
			plugin, err := f.build(ctx, registry, entry.Name, c.Args[entry.Name])
			if err != nil {
				f.Close()
				return nil, &PluginError{Plugin: entry.Name, Err: err}
			}
			built[entry.Name] = plugin
			if !registry[entry.Name].InTree {
				f.outOfTree.Insert(entry.Name)
			}
			f.plugins = append(f.plugins, plugin)
		}
	}
	if err := f.buildChains(c.Chains, built); err != nil {
		f.Close()
		return nil, err
	}
	f.initEvaluationCounters()
	f.opaquePlugins = f.findOpaquePlugins(func(plugin fwk.Plugin) bool {
		return isOpaque(plugin) || readsVolumes(plugin) && f.lacksPreFilter(plugin)
	})
	f.resourceReporters = f.findResourceReporters()
	f.permanentRejecters = f.findPermanentRejecters()
	f.opaqueWithVolumes = f.findOpaquePlugins(func(plugin fwk.Plugin) bool { return isOpaque(plugin) || readsVolumes(plugin) })
	return f, nil
}

func (f *Framework) build(ctx context.Context, registry Registry, name string, args runtime.Object) (plugin fwk.Plugin, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its constructor panicked: %v", r)
		}
	}()
	registration, ok := registry[name]
	if !ok {
		return nil, fmt.Errorf("is not registered")
	}
	var handle fwk.Handle = f
	if registration.InTree && f.PinnedLister != nil {
		handle = inTreeHandle{f}
	}
	converted, err := registration.ConvertArgs(args)
	if err != nil {
		return nil, fmt.Errorf("its arguments: %w", err)
	}
	plugin, err = registration.New(ctx, converted, handle)
	if err == nil && plugin == nil {
		return nil, fmt.Errorf("its constructor returned no plugin")
	}
	return plugin, err
}

// Close closes the plugins that can be closed, last built first.
func (f *Framework) Close() {
	f.closeExtenders()
	for _, plugin := range slices.Backward(f.plugins) {
		if closer, ok := plugin.(io.Closer); ok {
			_ = f.callRecovered(nil, plugin.Name(), "Close", func() *fwk.Status { return fwk.AsStatus(closer.Close()) })
		}
	}
}

// ProfileName names the profile the Framework was built for.
func (f *Framework) ProfileName() string { return f.profile }

// PluginError says that one plugin could not be built.
type PluginError struct {
	Plugin string
	Err    error
}

func (e *PluginError) Error() string { return fmt.Sprintf("plugin %q: %v", e.Plugin, e.Err) }

// Unwrap returns what the plugin's factory returned.
func (e *PluginError) Unwrap() error { return e.Err }

func missingInterfaceError(plugin string, point Point) error {
	return &PluginError{Plugin: plugin, Err: fmt.Errorf("what its constructor returned does not implement %s", point)}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// chain puts the built plugins into their chains.
func (f *Framework) buildChains(chains Chains, built map[string]fwk.Plugin) error {
	var sorts []fwk.QueueSortPlugin
	var filters []fwk.FilterPlugin
	err := firstError(
		buildChain(chains, PreEnqueue, built, &f.preEnqueue),
		buildChain(chains, QueueSort, built, &sorts),
		buildChain(chains, PreFilter, built, &f.preFilter),
		buildChain(chains, Filter, built, &filters),
		buildChain(chains, PostFilter, built, &f.postFilter),
		buildChain(chains, PreScore, built, &f.preScore),
		buildChain(chains, Reserve, built, &f.reserve),
		buildChain(chains, Permit, built, &f.permit),
		buildChain(chains, PreBind, built, &f.preBind),
		buildChain(chains, Bind, built, &f.bind),
		buildChain(chains, PostBind, built, &f.postBind),
	)
	if err != nil {
		return err
	}
	for _, plugin := range filters {
		f.filter = append(f.filter, countedFilter{plugin, uncounted})
	}
	for _, entry := range chains[Score] {
		plugin, ok := built[entry.Name].(fwk.ScorePlugin)
		if !ok {
			return missingInterfaceError(entry.Name, Score)
		}
		f.score = append(f.score, weightedScore{plugin, entry.Name, int64(entry.Weight)})
	}
	if len(sorts) != 1 {
		return fmt.Errorf("queueSort: %d plugins, want one", len(sorts))
	}
	f.sort = sorts[0]
	return nil
}

func buildChain[P fwk.Plugin](chains Chains, point Point, built map[string]fwk.Plugin, into *[]P) error {
	for _, entry := range chains[point] {
		plugin, ok := built[entry.Name].(P)
		if !ok {
			return missingInterfaceError(entry.Name, point)
		}
		*into = append(*into, plugin)
	}
	return nil
}
