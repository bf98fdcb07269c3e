package scheduler

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// withPodLogger adds the pod and its profile to what the context's logger logs.
func withPodLogger(ctx context.Context, pod *v1.Pod) context.Context {
	logger := klog.FromContext(ctx)
	if logger.GetSink() == nil { // it logs nothing
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(podLogSink{logger.GetSink(), pod}))
}

// podLogSink adds a pod and its profile to each entry. WithValues of the sink below would
// encode them for each attempt, and few attempts log anything.
type podLogSink struct {
	sink logr.LogSink
	pod  *v1.Pod
}

// Init does nothing: the sink below was initialized by the logger that has it.
func (podLogSink) Init(logr.RuntimeInfo) {}

func (s podLogSink) Enabled(level int) bool { return s.sink.Enabled(level) }

func (s podLogSink) Info(level int, msg string, keysAndValues ...any) {
	s.below().Info(level, msg, append(s.values(), keysAndValues...)...)
}

func (s podLogSink) Error(err error, msg string, keysAndValues ...any) {
	s.below().Error(err, msg, append(s.values(), keysAndValues...)...)
}

func (s podLogSink) values() []any {
	return []any{"pod", klog.KObj(s.pod), "profile", s.pod.Spec.SchedulerName}
}

// below returns the sink below, which names the caller of podLogSink's method as the place in
// the source.
func (s podLogSink) below() logr.LogSink {
	if sink, ok := s.sink.(logr.CallDepthLogSink); ok {
		return sink.WithCallDepth(1)
	}
	return s.sink
}

func (s podLogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return podLogSink{s.sink.WithValues(keysAndValues...), s.pod}
}

func (s podLogSink) WithName(name string) logr.LogSink {
	return podLogSink{s.sink.WithName(name), s.pod}
}

// WithCallDepth is logr.CallDepthLogSink's.
func (s podLogSink) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := s.sink.(logr.CallDepthLogSink); ok {
		return podLogSink{sink.WithCallDepth(depth), s.pod}
	}
	return s
}
