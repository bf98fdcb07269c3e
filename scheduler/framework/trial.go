package framework

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// Trial says of a Framework that its plugins are only on trial: they are asked
// about real pods on a copy of the cluster, and nothing of it counts. It
// remembers whom it asks, so that a plugin that does not come back has a name.
type Trial struct {
	last atomic.Pointer[Call]
}

// Call is one plugin at one extension point.
type Call struct{ Plugin, Point string }

// Last is the call that was begun last; the zero Call before the first one, and
// after Clear.
func (t *Trial) LastCall() Call {
	if last := t.last.Load(); last != nil {
		return *last
	}
	return Call{}
}

// Clear forgets the last call.
func (t *Trial) Clear() { t.last.Store(nil) }

// calls notes whom the Framework asks now. Without a trial it costs nothing.
func (t *Trial) recordCall(plugin, point string) {
	if t != nil {
		t.store(plugin, point)
	}
}

// asks notes that a form of a plugin is asked, which does so in one call about
// many nodes, until answered is called.
func (f *Framework) beginBatchCall(state fwk.CycleState, plugin, point string) (answered func()) {
	f.trial.recordCall(plugin, point)
	w, begin := callWatchOf(state), f.callStart(state)
	watched := w != nil && f.outOfTree.Has(plugin)
	if !watched && begin.IsZero() {
		return noop
	}
	outer := f.beginCall(w, plugin, point)
	return func() {
		f.endCall(w, plugin, outer)
		f.observePluginDuration(begin, plugin, point, nil)
	}
}

func noop() {}

func (t *Trial) store(plugin, point string) {
	if last := t.last.Load(); last == nil || last.Plugin != plugin || last.Point != point {
		t.last.Store(&Call{plugin, point})
	}
}

// TrialHandle is a Handle that tells its plugins whether they are on trial, as
// every Framework does. A plugin that does something outside of the cluster when
// it is asked about a pod, or holds pods up on purpose, should not do so then.
type TrialHandle interface{ OnTrial() bool }

var _ TrialHandle = &Framework{}

// OnTrial says that nothing that the plugins say counts: no attempt of theirs is
// measured, and what they try to write is refused.
func (f *Framework) OnTrial() bool { return f.trial != nil }
