package framework

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// pointDuration is the time that pods spend at extension points.
var pointDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_framework_extension_point_duration_seconds",
	Help:    "[STABLE] Time for all plugins of an extension point, by the status they ended with and the profile.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"extension_point", "status", "profile"})

// Metrics returns the package's collectors.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{pointDuration, pluginDuration, evaluations, permitWait, pluginFaults, deviceConditionWait, deviceConditionAllocations}
}

// ForgetProfile deletes the metric series of a deleted profile.
func ForgetProfile(profile string) {
	pointDuration.DeletePartialMatch(prometheus.Labels{"profile": profile})
	evaluations.DeletePartialMatch(prometheus.Labels{"profile": profile})
	pluginFaults.DeletePartialMatch(prometheus.Labels{"profile": profile})
	deviceConditionWait.DeletePartialMatch(prometheus.Labels{"profile": profile})
	deviceConditionAllocations.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// pointsOfEveryAttempt are the extension points that every attempt runs, so
// that their observers are looked up only once.
var pointsOfEveryAttempt = []string{"PreFilter", "Filter", "PreScore", "Score"}

// successObservers returns the observers of successful runs of these points.
func successObservers(profile string) map[string]prometheus.Observer {
	observers := map[string]prometheus.Observer{}
	for _, point := range pointsOfEveryAttempt {
		observers[point] = pointDuration.WithLabelValues(point, fwk.Success.String(), profile)
	}
	return observers
}

// observePointDuration records the time since begin at an extension point and
// returns the current time.
func (f *Framework) observePointDuration(point string, begin time.Time, code fwk.Code) time.Time {
	end := f.Clock.Now()
	if f.OnTrial() {
		return end
	}
	spent := end.Sub(begin).Seconds()
	if code == fwk.Success {
		if observer, ok := f.successObservers[point]; ok {
			observer.Observe(spent)
			return end
		}
	}
	pointDuration.WithLabelValues(point, code.String(), f.profile).Observe(spent)
	return end
}

// pluginCall is a call of a plugin that has begun.
type pluginCall struct {
	*Framework
	Call
	// watch is nil where the call is not tracked. begin is zero outside sampled attempts.
	watch *CallWatch
	begin time.Time
}

// beginCall begins a call of a plugin: it is recorded on trial, tracked for out-of-tree
// plugins by the CallWatch of state, and timed in sampled attempts.
func (f *Framework) beginCall(state fwk.CycleState, plugin, point string) pluginCall {
	f.trial.recordCall(plugin, point)
	c := pluginCall{f, Call{plugin, point}, f.watchOf(state, plugin), f.callStart(state)}
	if c.watch != nil {
		c.watch.begin(c.Call)
	}
	return c
}

// end ends the call, which returned s. If the attempt was abandoned meanwhile, end returns
// the status that replaces s, and the caller returns with it.
func (c pluginCall) end(s *fwk.Status) (abandoned *fwk.Status) {
	c.observeDuration(s)
	if c.watch == nil || !c.watch.end(c.Call) {
		return nil
	}
	if c.Point == "Reserve" {
		// The plugin may still reserve something; the pod keeps its resources until
		// Unreserve has run.
		return fwk.AsStatus(&CallTimeoutError{c.Call}).WithPlugin(c.Plugin)
	}
	return abandonedStatus(c.watch)
}

// watchOf returns the CallWatch that tracks calls of plugin, or nil.
func (f *Framework) watchOf(state fwk.CycleState, plugin string) *CallWatch {
	if w := callWatchOf(state); w != nil && f.outOfTree.Has(plugin) {
		return w
	}
	return nil
}

// HasOutOfTreePlugins reports whether any plugin is not in-tree.
func (f *Framework) HasOutOfTreePlugins() bool { return len(f.outOfTree) > 0 }

// recoverPanic turns a plugin's panic into an error status that names the
// plugin, and reports it. It must be deferred directly. plugin points to the
// name of the plugin being called; pod and state may be nil.
func (f *Framework) recoverPanic(pod *v1.Pod, state fwk.CycleState, plugin *string, point string, status **fwk.Status) {
	if r := recover(); r != nil {
		*status = f.panicStatus(pod, state, &PanicError{Plugin: *plugin, Point: point, Value: r, Stack: debug.Stack()})
	}
}

// panicStatus ends the call that panicked, reports it and returns its status. pod and
// state may be nil.
func (f *Framework) panicStatus(pod *v1.Pod, state fwk.CycleState, err *PanicError) *fwk.Status {
	w, call := f.watchOf(state, err.Plugin), Call{err.Plugin, err.Point}
	if w != nil {
		w.end(call)
	}
	if abandoned := abandonedStatus(w); abandoned != nil {
		return abandoned
	}
	f.reportPluginFault(pod, PluginFault{Call: call, Goexit: err.Value == nil})
	return fwk.AsStatus(err).WithPlugin(err.Plugin)
}

// callRecovered runs call and recovers a panic of plugin, and runtime.Goexit where plugin is
// out-of-tree. pod and state may be nil.
func (f *Framework) callRecovered(pod *v1.Pod, state fwk.CycleState, plugin, point string, call func() *fwk.Status) *fwk.Status {
	return f.runRecovered(pod, state, point, f.outOfTree.Has(plugin), func(running *string) *fwk.Status {
		*running = plugin
		return call()
	})
}

// runRecovered runs calls, which calls plugins and sets running to the name of each, and
// recovers a panic. A call of runtime.Goexit cannot be recovered, so where isolated is true
// calls has a goroutine of its own, and its caller still goes on. pod and state may be nil.
func (f *Framework) runRecovered(pod *v1.Pod, state fwk.CycleState, point string, isolated bool, calls func(running *string) *fwk.Status) (status *fwk.Status) {
	running := ""
	run := func() {
		defer f.recoverPanic(pod, state, &running, point, &status)
		status = calls(&running)
	}
	if !isolated {
		run()
		return status
	}
	if stack := f.runtime().isolate(run); stack != nil {
		status = f.panicStatus(pod, state, &PanicError{Plugin: running, Point: point, Stack: stack})
	}
	return status
}

// isolate runs work in a goroutine of its own and waits for it. It returns the stack where
// work ended the goroutine with runtime.Goexit, and nil where work returned.
func (r Runtime) isolate(work func()) (stack []byte) {
	done := make(chan struct{})
	r.Go(func() { runIsolated(done, &stack, work) })
	_ = r.Wait(context.Background(), done)
	return stack
}

// runIsolated is the work of a goroutine of isolate. It is not inlined, so that IsIsolated finds it.
//
//go:noinline
func runIsolated(done chan<- struct{}, stack *[]byte, work func()) {
	defer close(done)
	recordGoexit(stack, work)
}

// recordGoexit runs work. Where work ends the goroutine, it stores the stack.
func recordGoexit(stack *[]byte, work func()) {
	returned := false
	defer func() {
		if !returned {
			*stack = debug.Stack()
		}
	}()
	work()
	returned = true
}

// runtime is how f's plugin calls are started, awaited and timed.
func (f *Framework) runtime() Runtime { return Runtime{f.Clock, f.Go, f.Wait} }

// PanicError says that a plugin panicked, or ended the goroutine that called it. The
// attempt fails; the scheduling loop goes on.
type PanicError struct {
	// Plugin may be empty where Value is nil.
	Plugin string
	Point  string
	// Value is what the plugin panicked with; nil where it called runtime.Goexit.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	switch {
	case e.Value != nil:
		return fmt.Sprintf("plugin %q panicked in %s: %v", e.Plugin, e.Point, e.Value)
	case e.Plugin == "":
		return "a plugin ended its goroutine (runtime.Goexit)"
	}
	return fmt.Sprintf("plugin %q ended its goroutine (runtime.Goexit) in %s", e.Plugin, e.Point)
}

// PluginFault is a call of a plugin for a pod that panicked, which includes one that ended
// its goroutine, or timed out.
type PluginFault struct {
	Call
	// TimedOut distinguishes a timeout from a panic, Goexit a call that ended its goroutine.
	TimedOut, Goexit bool
	// Fingerprint is the plugin's; see Config.Fingerprints.
	Fingerprint string
}

// PluginFaultRecorder records faults at the pod with that UID, from any goroutine. No lock
// is held.
type PluginFaultRecorder interface {
	RecordPluginFault(uid types.UID, p PluginFault)
}

// pluginFaults counts calls that panicked or timed out.
var pluginFaults = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_plugin_faults_total",
	Help: "[ALPHA] Plugin calls that panicked or timed out (late), by profile, plugin and extension point.",
}, []string{"profile", "plugin", "extension_point", "fault"})

// ReportGoexit counts a call for pod that ended its goroutine, as one that panicked, and
// reports it to the Host.
func (f *Framework) ReportGoexit(pod *v1.Pod, err *PanicError) {
	if err.Plugin != "" {
		f.reportPluginFault(pod, PluginFault{Call: Call{err.Plugin, err.Point}, Goexit: true})
	}
}

// ReportCallTimeout counts a call for pod that timed out, and reports it to the
// Host.
func (f *Framework) ReportCallTimeout(pod *v1.Pod, call Call) {
	f.reportPluginFault(pod, PluginFault{Call: call, TimedOut: true})
}

// reportPluginFault counts a fault and reports it to the Host. On trial it does
// nothing, because the trial returns the fault.
func (f *Framework) reportPluginFault(pod *v1.Pod, p PluginFault) {
	if f.OnTrial() {
		return
	}
	kind := "panic"
	if p.TimedOut {
		kind = "late"
	}
	pluginFaults.WithLabelValues(f.profile, p.Plugin, p.Point, kind).Inc()
	if p.Fingerprint = f.fingerprints[p.Plugin]; pod != nil && f.PluginFaults != nil {
		f.PluginFaults.RecordPluginFault(pod.UID, p)
	}
}

// Names, labels and buckets are kube-scheduler's.
var (
	// pluginDuration is the duration of plugin calls in sampled attempts.
	pluginDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_plugin_execution_duration_seconds",
		Help:    "[BETA] Duration of one plugin call, in one attempt of ten. A batch call for many nodes is one call.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
	}, []string{"plugin", "extension_point", "status"})
	// evaluations counts plugin calls; a batch call counts once per node.
	evaluations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_plugin_evaluation_total",
		Help: "[BETA] Number of plugin calls at PreFilter, PreScore, Filter and Score, at the last two once for each node. Cached results are not counted.",
	}, []string{"plugin", "extension_point", "profile"})
	// permitWait is how long pods wait at Permit.
	permitWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_permit_wait_duration_seconds",
		Help:    "[BETA] Time that pods waited at Permit, by the status that ended the wait.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result"})
	// uncounted replaces the evaluation counters on trial. It is not
	// registered.
	uncounted = prometheus.NewCounter(prometheus.CounterOpts{Name: "uncounted"})
)

// SampleEvery is the number of attempts out of which one has its plugin calls
// timed. kube-scheduler times one of ten, too.
const SampleEvery = 10

// EvaluationCounter returns the counter for a plugin at an extension point.
func (f *Framework) EvaluationCounter(plugin, point string) prometheus.Counter {
	if counter, known := f.evaluationCounters[Call{plugin, point}]; known {
		return counter
	}
	return uncounted
}

// initEvaluationCounters looks up the counters once.
func (f *Framework) initEvaluationCounters() {
	if f.OnTrial() {
		return
	}
	f.evaluationCounters = map[Call]prometheus.Counter{}
	count := func(plugin fwk.Plugin, point string) {
		f.evaluationCounters[Call{plugin.Name(), point}] = evaluations.WithLabelValues(plugin.Name(), point, f.profile)
	}
	for _, plugin := range f.preFilter {
		count(plugin, "PreFilter")
	}
	for _, plugin := range f.preScore {
		count(plugin, "PreScore")
	}
	for i := range f.filter {
		count(f.filter[i], "Filter")
		f.filter[i].Evaluations = f.EvaluationCounter(f.filter[i].Name(), "Filter")
	}
	for _, plugin := range f.score {
		count(plugin, "Score")
	}
}

// callStart returns the current time in a sampled attempt, and otherwise zero.
func (f *Framework) callStart(state fwk.CycleState) time.Time {
	if state == nil || !state.ShouldRecordPluginMetrics() || f.OnTrial() {
		return time.Time{}
	}
	return f.Clock.Now()
}

// pointLabels are the extension points whose label in metrics is not their name.
var pointLabels = map[string]string{
	"AddPod": "PreFilterExtensionAddPod", "RemovePod": "PreFilterExtensionRemovePod", "NormalizeScore": "ScoreExtensionNormalize",
}

// observeDuration records the duration of the call in a sampled attempt.
func (c pluginCall) observeDuration(status *fwk.Status) {
	if !c.begin.IsZero() {
		pluginDuration.WithLabelValues(c.Plugin, cmp.Or(pointLabels[c.Point], c.Point), status.Code().String()).Observe(c.Clock.Since(c.begin).Seconds())
	}
}
