package framework

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"
)

// pointDuration is how long a pod spent at an extension point.
var pointDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_framework_extension_point_duration_seconds",
	Help:    "Time for all plugins of an extension point, by the status they ended with and the profile.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"extension_point", "status", "profile"})

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{pointDuration} }

// ForgetProfile drops the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	pointDuration.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// observe records the time since start at an extension point. Use it deferred,
// with a pointer to the status that is returned in the end.
func (f *Framework) observe(point string, start time.Time, status **fwk.Status) {
	pointDuration.WithLabelValues(point, (*status).Code().String(), f.profile).
		Observe(f.Clock.Since(start).Seconds())
}

// ObservePoint records the time since start at an extension point that is run
// node by node, such as Filter.
func (f *Framework) ObservePoint(point string, start time.Time, code fwk.Code) {
	pointDuration.WithLabelValues(point, code.String(), f.profile).Observe(f.Clock.Since(start).Seconds())
}

// rescue turns a plugin's panic into an error that names it. Use it deferred;
// plugin points to the name of the plugin that is being called.
func rescue(plugin *string, point string, status **fwk.Status) {
	if r := recover(); r != nil {
		*status = panicked(*plugin, point, r)
	}
}

func panicked(plugin, point string, r any) *fwk.Status {
	return fwk.AsStatus(&PanicError{Plugin: plugin, Point: point, Value: r, Stack: debug.Stack()}).WithPlugin(plugin)
}

// guard calls one plugin and recovers it.
func guard(plugin, point string, call func() *fwk.Status) (status *fwk.Status) {
	defer rescue(&plugin, point, &status)
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
