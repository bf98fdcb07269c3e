package framework

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

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
