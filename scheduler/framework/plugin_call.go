package framework

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// pointDuration is how long a pod spent at an extension point.
var pointDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_framework_extension_point_duration_seconds",
	Help:    "[STABLE] Time for all plugins of an extension point, by the status they ended with and the profile.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"extension_point", "status", "profile"})

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{pointDuration, pluginDuration, evaluations, permitWait, pluginFaults}
}

// ForgetProfile drops the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	pointDuration.DeletePartialMatch(prometheus.Labels{"profile": profile})
	evaluations.DeletePartialMatch(prometheus.Labels{"profile": profile})
	pluginFaults.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// pointNames are those that every attempt passes; their observers are looked
// up once.
var pointsOfEveryAttempt = []string{"PreFilter", "Filter", "PreScore", "Score"}

// successes returns the observers of these points for attempts that succeed.
func successObservers(profile string) map[string]prometheus.Observer {
	observers := map[string]prometheus.Observer{}
	for _, point := range pointsOfEveryAttempt {
		observers[point] = pointDuration.WithLabelValues(point, fwk.Success.String(), profile)
	}
	return observers
}

// measure records the time since begin at an extension point, and returns the end
// of that time.
func (f *Framework) observePointDuration(point string, begin time.Time, code fwk.Code) time.Time {
	end := f.Clock.Now()
	if f.OnTrial() && !fault.TrialMeasured {
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

// rescue turns a plugin's panic into an error that names it, and tells of it.
// Use it deferred; plugin points to the name of the plugin that is being
// called about pod, which may be nil, as state may be.
func (f *Framework) recoverPanic(pod *v1.Pod, state fwk.CycleState, plugin *string, point string, status **fwk.Status) {
	if fault.PanicPasses {
		return
	}
	if r := recover(); r != nil {
		f.endCall(callWatchOf(state), *plugin, timedCall{})
		f.reportPluginFault(pod, PluginFault{Call: Call{*plugin, point}})
		*status = panicStatus(*plugin, point, r)
	}
}

func panicStatus(plugin, point string, r any) *fwk.Status {
	return fwk.AsStatus(&PanicError{Plugin: plugin, Point: point, Value: r, Stack: debug.Stack()}).WithPlugin(plugin)
}

// guard calls one plugin about pod, which may be nil, and recovers it.
func (f *Framework) callRecovered(pod *v1.Pod, plugin, point string, call func() *fwk.Status) (status *fwk.Status) {
	defer f.recoverPanic(pod, nil, &plugin, point, &status)
	return call()
}

// PanicError says that a plugin panicked. The attempt fails; the loop goes on.
type PanicError struct {
	Plugin string
	Point  string
	Value  any
	Stack  []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("plugin %q panicked in %s: %v", e.Plugin, e.Point, e.Value)
}

// Poison is a call of a plugin about a pod that did not end as calls do.
type PluginFault struct {
	Call
	// Hung says that it did not come back in time; else it panicked.
	TimedOut bool
	// Print is the plugin's; see Config.Prints.
	Fingerprint string
}

// pluginFaults counts the calls that were recovered or given up.
var pluginFaults = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_plugin_faults_total",
	Help: "[ALPHA] Calls of plugins that panicked, or did not come back in time (late), by the profile, the plugin and the extension point.",
}, []string{"profile", "plugin", "extension_point", "fault"})

// Late counts a call about pod that is not waited for any more, and tells the
// host of it.
func (f *Framework) ReportCallTimeout(pod *v1.Pod, call Call) {
	f.reportPluginFault(pod, PluginFault{Call: call, TimedOut: true})
}

// tell counts a call that went wrong, and tells the host whose attempt it was.
// On trial it is for the trial to say.
func (f *Framework) reportPluginFault(pod *v1.Pod, p PluginFault) {
	if f.OnTrial() {
		return
	}
	kind := "panic"
	if p.TimedOut {
		kind = "late"
	}
	pluginFaults.WithLabelValues(f.profile, p.Plugin, p.Point, kind).Inc()
	if p.Fingerprint = f.fingerprints[p.Plugin]; pod != nil && f.OnPluginFault != nil {
		f.OnPluginFault(pod, p)
	}
}

// The names, labels and buckets are kube-scheduler's.
var (
	// pluginDuration is how long plugins take in the attempts of a sample.
	pluginDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_plugin_execution_duration_seconds",
		Help:    "[BETA] Time of one call of a plugin, in one attempt of ten. A plugin that is asked about many nodes in one call is timed for all of them together.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
	}, []string{"plugin", "extension_point", "status"})
	// evaluations counts what plugins are asked.
	evaluations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_plugin_evaluation_total",
		Help: "[BETA] How often a plugin was asked at PreFilter, PreScore, Filter and Score, at the last two once for each node. What is remembered is not asked.",
	}, []string{"plugin", "extension_point", "profile"})
	// permitWait is how long pods wait for Permit plugins.
	permitWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_permit_wait_duration_seconds",
		Help:    "[BETA] Time that pods waited for the word of a Permit plugin, by the status that ended it.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result"})
	// uncounted takes what plugins on trial are asked. It is registered nowhere.
	uncounted = prometheus.NewCounter(prometheus.CounterOpts{Name: "uncounted"})
)

// SampleEvery is one attempt of how many has its calls of plugins timed:
// kube-scheduler times a tenth, too.
const SampleEvery = 10

// asked returns what counts the questions to a plugin at a point.
func (f *Framework) evaluationCounter(plugin, point string) prometheus.Counter {
	if counter, known := f.evaluationCounters[Call{plugin, point}]; known {
		return counter
	}
	return uncounted
}

// countQuestions looks up once what each question is counted by.
func (f *Framework) initEvaluationCounters() {
	if f.OnTrial() && !fault.TrialMeasured {
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
		f.filter[i].evaluations = f.evaluationCounter(f.filter[i].Name(), "Filter")
	}
	for _, plugin := range f.score {
		count(plugin, "Score")
	}
}

// begins is when the call of a plugin begins that follows; zero in an attempt
// that is not of the sample.
func (f *Framework) callStart(state fwk.CycleState) time.Time {
	if state == nil || !state.ShouldRecordPluginMetrics() || f.OnTrial() {
		return time.Time{}
	}
	return f.Clock.Now()
}

// took notes how long a call took that began then.
func (f *Framework) observePluginDuration(begin time.Time, plugin, point string, status *fwk.Status) {
	if !begin.IsZero() {
		pluginDuration.WithLabelValues(plugin, point, status.Code().String()).Observe(f.Clock.Since(begin).Seconds())
	}
}

// AskFilter has a form judge slots, whose plugin is watched, timed and counted
// meanwhile. It is for the cycle.
func (f *Framework) RunBatchFilter(state fwk.CycleState, form *ClassFilter, slots []Slot, refusals []RejectionCode) {
	form.evaluations.Add(float64(len(slots)))
	answered := f.beginBatchCall(state, form.Plugin, "Filter")
	form.Filter(slots, refusals)
	answered()
}

// AskScore has a form score slots in the same way.
func (f *Framework) RunBatchScore(state fwk.CycleState, form *ClassScore, slots []Slot, scores []int64) ScoreResult {
	form.evaluations.Add(float64(len(slots)))
	answered := f.beginBatchCall(state, form.Plugin, "Score")
	scoring := form.Score(slots, scores)
	answered()
	return scoring
}
