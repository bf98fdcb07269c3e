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
