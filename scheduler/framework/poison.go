package framework

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

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
