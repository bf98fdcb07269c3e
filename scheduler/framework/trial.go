package framework

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// Trial marks a Framework whose plugins are only on trial: they evaluate real
// pods on a copy of the cluster, without effect. It records the last call, so
// that a plugin that does not return can be named.
type Trial struct {
	last atomic.Pointer[Call]
}

// Call is a plugin at an extension point.
type Call struct{ Plugin, Point string }

// LastCall is the call that began last; zero before the first call and after
// Clear.
func (t *Trial) LastCall() Call {
	if last := t.last.Load(); last != nil {
		return *last
	}
	return Call{}
}

// Clear removes the last call.
func (t *Trial) Clear() { t.last.Store(nil) }

// recordCall records a call. t may be nil.
func (t *Trial) recordCall(plugin, point string) {
	if t != nil {
		t.store(plugin, point)
	}
}

// TrackCall tracks and times a call of a plugin outside of the chains, until done is called.
// done reports whether the attempt was abandoned meanwhile: the result of the call does not
// count then. A panic is not recovered.
func (f *Framework) TrackCall(state fwk.CycleState, plugin, point string) (done func() (abandoned bool)) {
	call := f.beginCall(state, plugin, point)
	if call.watch == nil && call.begin.IsZero() {
		return notAbandoned
	}
	return func() bool { return call.end(nil) != nil }
}

func notAbandoned() bool { return false }

func (t *Trial) store(plugin, point string) {
	if last := t.last.Load(); last == nil || last.Plugin != plugin || last.Point != point {
		t.last.Store(&Call{plugin, point})
	}
}

// TrialHandle is a Handle that tells plugins whether they are on trial. Every
// Framework is one. Plugins on trial should not act on anything outside the
// cluster and should not delay pods on purpose.
type TrialHandle interface{ OnTrial() bool }

var _ TrialHandle = &Framework{}

// OnTrial reports whether the plugins are on trial: their calls are not
// measured, and their writes are refused.
func (f *Framework) OnTrial() bool { return f.trial != nil }
