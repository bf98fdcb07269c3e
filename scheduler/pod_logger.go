package scheduler

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// withPodLogger adds the pod and its profile to the context's logger.
func withPodLogger(ctx context.Context, pod *v1.Pod) context.Context {
	logger := klog.FromContext(ctx)
	if logger.GetSink() == nil {
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(podLogSink{logger.GetSink(), pod}))
}

// podLogSink adds a pod and its profile to each line. A logger encodes its values when it gets
// them, into a buffer of its own, and most attempts log nothing: here they are added to a line
// that is written.
type podLogSink struct {
	logr.LogSink
	pod *v1.Pod
}

// values returns the sink with its values, and frames less on the stack.
func (s podLogSink) values(frames int) logr.LogSink {
	sink := s.LogSink
	if withDepth, ok := sink.(logr.CallDepthLogSink); ok && frames > 0 {
		sink = withDepth.WithCallDepth(frames)
	}
	return sink.WithValues("pod", klog.KObj(s.pod), "profile", s.pod.Spec.SchedulerName)
}

// Init does nothing: the sink that this one passes lines on to was initialized.
func (podLogSink) Init(logr.RuntimeInfo) {}

// Info implements logr.LogSink.
func (s podLogSink) Info(level int, msg string, keysAndValues ...any) {
	s.values(1).Info(level, msg, keysAndValues...)
}

// Error implements logr.LogSink.
func (s podLogSink) Error(err error, msg string, keysAndValues ...any) {
	s.values(1).Error(err, msg, keysAndValues...)
}

// WithValues implements logr.LogSink.
func (s podLogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return s.values(0).WithValues(keysAndValues...)
}

// WithName implements logr.LogSink.
func (s podLogSink) WithName(name string) logr.LogSink { return s.values(0).WithName(name) }

// WithCallDepth implements logr.CallDepthLogSink.
func (s podLogSink) WithCallDepth(depth int) logr.LogSink {
	if withDepth, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		s.LogSink = withDepth.WithCallDepth(depth)
	}
	return s
}
