// Package framework runs scheduler plugins. It implements the contract in
// k8s.io/kube-scheduler/framework: CycleState, NodeInfo and PodInfo, the chains
// of plugins at each extension point, and the Handle.
//
// It recovers, attributes and times every call of a plugin. Its callers cycle,
// binding and queue decide what a result means for the pod.
package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// Host is what the scheduler provides to the plugins of every Generation.
// Everything in it outlives them.
type Host struct {
	Client     clientset.Interface
	KubeConfig *restclient.Config
	Informers  informers.SharedInformerFactory
	Recorder   events.EventRecorderLogger
	// Lister is the snapshot of the last cache.UpdateSnapshot.
	Lister fwk.SharedLister
	// PinnedLister is the same for out-of-tree plugins; if nil they use Lister.
	PinnedLister  PinnedLister
	Nominator     fwk.PodNominator
	Activator     fwk.PodActivator
	WaitingPods   *WaitingPods
	PodsInPreBind *PodsInPreBind
	// Preemptor evicts pods; may be nil.
	Preemptor Preemptor
	// Volumes holds the assumed volumes and claims; may be nil if no plugin
	// needs it.
	Volumes Volumes
	// Devices holds the claims and what was allocated for them; may be nil if no
	// plugin needs it.
	Devices Devices
	// Groups are the groups of pods; may be nil if no plugin needs them.
	Groups *podgroups.Store
	// PluginFaults counts the calls that panicked or timed out, by pod; may be nil.
	PluginFaults PluginFaultRecorder
	// QueueSortFaults may be nil.
	QueueSortFaults QueueSortFaultHandler
	Clock           clock.WithTickerAndDelayedExecution
	// Go starts work concurrently; nil means Goroutine. Wait waits for such
	// work; nil means Block.
	Go   func(work func())
	Wait WaitFunc
}

// Config selects the plugins of a Framework.
type Config struct {
	// Profile is the profile's name for metrics and plugins.
	Profile string
	Chains  Chains
	// Args holds each plugin's decoded arguments.
	Args map[string]runtime.Object
	// Fingerprints identify the version of each plugin by name: another
	// fingerprint means another plugin or other arguments. May be nil.
	Fingerprints map[string]string
	// OnBuild is called before each plugin's constructor, so that a constructor
	// that does not return can be named; may be nil.
	OnBuild func(plugin string)
	// Extenders run after the plugins, in this order. The Framework closes
	// them.
	Extenders []fwk.Extender
	// AbandonClose is called for a plugin whose Close did not return in time, so that Close of the
	// Framework went on without it. It returns what is called when Close returns. May be nil.
	AbandonClose func(Call) (returned func())
	// Trial is set for a Framework whose plugins are only on trial; see
	// OnTrial.
	Trial *Trial
}

// Framework is one set of plugin instances and their chains. It belongs to one
// Generation of one profile. Its chains never change.
type Framework struct {
	Host
	profile string
	ctx     context.Context
	// successObservers are the duration observers of successful extension
	// points that every attempt runs.
	successObservers map[string]prometheus.Observer
	// evaluationCounters count the evaluations of each plugin by extension
	// point.
	evaluationCounters map[Call]prometheus.Counter
	plugins            []fwk.Plugin // in build order
	// opaquePlugins are the opaque plugins by the pod's PerAttemptFacets, divided
	// by PodVolumes, the lower of the two.
	opaquePlugins      [1 + perAttemptFacets/PodVolumes]*opaquePluginSet
	extenders          []fwk.Extender
	resourceReporters  []resourceReporter
	deviceReporters    []DeviceReporter
	permanentRejecters []permanentRejecter
	fingerprints       map[string]string
	outOfTree          sets.Set[string]             // names of plugins that are not in-tree
	trial              *Trial                       // nil for a profile in use
	abandonClose       func(Call) (returned func()) // see Config; may be nil
	// queueSortFault is why ByPriority replaces the QueueSort plugin.
	queueSortFault atomic.Pointer[QueueSortError]

	preEnqueue         []fwk.PreEnqueuePlugin
	sort               fwk.QueueSortPlugin
	preFilter          []fwk.PreFilterPlugin
	filter             []CountedFilter
	postFilter         []fwk.PostFilterPlugin
	preScore           []fwk.PreScorePlugin
	score              []WeightedScore
	reserve            []fwk.ReservePlugin
	permit             []fwk.PermitPlugin
	preBind            []fwk.PreBindPlugin
	preBindNames       sets.Set[string]
	bind               []fwk.BindPlugin
	postBind           []fwk.PostBindPlugin
	placementFeasible  []PlacementFeasiblePlugin
	podGroupPostFilter []fwk.PodGroupPostFilterPlugin

	// inPodGroupPostFilter is true while the loop calls such a plugin; endMutations ends the
	// mutations of the snapshot that it has begun.
	inPodGroupPostFilter bool
	endMutations         func() error
}

// CountedFilter is a Filter plugin with the counter of its evaluations.
type CountedFilter struct {
	fwk.FilterPlugin
	Evaluations prometheus.Counter
}

// WeightedScore is a Score plugin with its weight.
type WeightedScore struct {
	fwk.ScorePlugin
	Plugin string
	Weight int64
}

// New builds each plugin of c once, and the chains. ctx must live as long as
// the Framework. If a plugin cannot be built, New closes the others and returns
// a *PluginError.
func New(ctx context.Context, c Config, registry Registry, host Host) (*Framework, error) {
	if host.Go == nil {
		host.Go = Goroutine
	}
	if host.Wait == nil {
		host.Wait = Block
	}
	f := &Framework{Host: host, profile: c.Profile, ctx: ctx, fingerprints: c.Fingerprints, outOfTree: sets.New[string](), trial: c.Trial, abandonClose: c.AbandonClose, extenders: c.Extenders}
	if !f.OnTrial() {
		f.successObservers = successObservers(c.Profile)
	}
	built := map[string]fwk.Plugin{}
	for _, entry := range c.Chains.All() {
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
	if err := f.buildChains(c.Chains, built); err != nil {
		f.Close()
		return nil, err
	}
	f.initEvaluationCounters()
	for i := range f.opaquePlugins {
		facets := PodFacets(i) * PodVolumes
		f.opaquePlugins[i] = f.findOpaquePlugins(func(plugin fwk.Plugin) bool {
			return isOpaque(plugin) || ReadsOf(plugin).Pod&facets != 0 && AffectsPlacement(plugin) ||
				ReadsPerAttempt(plugin) && f.lacksPreFilter(plugin)
		})
	}
	f.resourceReporters = f.findResourceReporters()
	f.deviceReporters = f.findDeviceReporters()
	f.permanentRejecters = f.findPermanentRejecters()
	return f, nil
}

func (f *Framework) build(ctx context.Context, registry Registry, name string, args runtime.Object) (plugin fwk.Plugin, err error) {
	if registry[name].InTree {
		return f.callConstructor(ctx, registry, name, args)
	}
	// Its caller closes the plugins that are built already.
	if f.runtime().isolate(func() { plugin, err = f.callConstructor(ctx, registry, name, args) }) != nil {
		return nil, errors.New("its constructor ended its goroutine (runtime.Goexit)")
	}
	return plugin, err
}

func (f *Framework) callConstructor(ctx context.Context, registry Registry, name string, args runtime.Object) (plugin fwk.Plugin, err error) {
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
	switch {
	case err != nil:
		return nil, err
	case plugin == nil:
		return nil, fmt.Errorf("its constructor returned no plugin")
	case plugin.Name() != name:
		// Its calls would count as those of another plugin, or of one that is in-tree.
		if closer, ok := plugin.(io.Closer); ok {
			_ = closer.Close()
		}
		return nil, fmt.Errorf("its method Name returns %q: must be %q, the name that it is registered under", plugin.Name(), name)
	}
	return plugin, nil
}

// Close closes the plugins that implement io.Closer in reverse build order, and
// the extenders. It waits for no out-of-tree plugin longer than CallTimeout: its
// caller holds the lock of the profile, and the plugins that are left have to be
// closed as well.
func (f *Framework) Close() {
	f.closeExtenders()
	for _, plugin := range slices.Backward(f.plugins) {
		if closer, ok := plugin.(io.Closer); ok {
			f.closePlugin(plugin.Name(), closer)
		}
	}
}

func (f *Framework) closePlugin(name string, closer io.Closer) {
	call := Call{name, "Close"}
	closePlugin := func() {
		_ = f.callRecovered(nil, nil, name, call.Point, func() *fwk.Status { return fwk.AsStatus(closer.Close()) })
	}
	if !f.outOfTree.Has(name) {
		closePlugin()
		return
	}
	watch := f.NewCallWatch()
	watch.Go(closePlugin)
	if watch.Wait(context.Background(), call.Timeout()) == nil {
		return
	}
	f.ReportCallTimeout(nil, call)
	if f.abandonClose != nil {
		watch.WhenEnded(f.abandonClose(call))
	}
}

// Context is the context given to New, which lives as long as the plugins.
func (f *Framework) Context() context.Context { return f.ctx }

// Plugins returns the plugins in build order.
func (f *Framework) Plugins() []fwk.Plugin { return f.plugins }

// PreFilterChain returns the PreFilter plugins in their order.
func (f *Framework) PreFilterChain() []fwk.PreFilterPlugin { return f.preFilter }

// FilterChain returns the Filter plugins in their order.
func (f *Framework) FilterChain() []CountedFilter { return f.filter }

// PreScoreChain returns the PreScore plugins in their order.
func (f *Framework) PreScoreChain() []fwk.PreScorePlugin { return f.preScore }

// ScoreChain returns the Score plugins in their order.
func (f *Framework) ScoreChain() []WeightedScore { return f.score }

// ProfileName is the name of the profile.
func (f *Framework) ProfileName() string { return f.profile }

// PluginError says that a plugin could not be built.
type PluginError struct {
	Plugin string
	Err    error
}

func (e *PluginError) Error() string { return fmt.Sprintf("plugin %q: %v", e.Plugin, e.Err) }

// Unwrap returns the error of the plugin's factory.
func (e *PluginError) Unwrap() error { return e.Err }

func missingInterfaceError(plugin string, point Point) error {
	return &PluginError{Plugin: plugin, Err: fmt.Errorf("the plugin that its constructor returned does not implement %s", point)}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// buildChains fills the chains with the built plugins.
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
		buildChain(chains, PlacementFeasible, built, &f.placementFeasible),
		buildChain(chains, PodGroupPostFilter, built, &f.podGroupPostFilter),
	)
	if err != nil {
		return err
	}
	f.preBindNames = sets.New[string]()
	for _, plugin := range f.preBind {
		f.preBindNames.Insert(plugin.Name())
	}
	for _, plugin := range filters {
		f.filter = append(f.filter, CountedFilter{plugin, uncounted})
	}
	for _, entry := range chains[Score] {
		plugin, ok := built[entry.Name].(fwk.ScorePlugin)
		if !ok {
			return missingInterfaceError(entry.Name, Score)
		}
		f.score = append(f.score, WeightedScore{plugin, entry.Name, int64(entry.Weight)})
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
