package framework

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Attribute keys of the span of an extension point.
const (
	statusKey  = attribute.Key("berth.status")
	pluginKey  = attribute.Key("berth.plugin")
	MessageKey = attribute.Key("berth.message")
)

// spanTextLimit is the maximum length of a text in a span, in bytes.
const spanTextLimit = 1024

// SpanText truncates text and makes it valid UTF-8. The exporter drops the
// whole batch of spans otherwise.
func SpanText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), spanTextLimit)], "\uFFFD")
}

// SetTracer makes each extension point of the attempt a span of t, below the
// span of its context.
func (c *CycleState) SetTracer(t trace.Tracer) { c.tracer = t }

// tracerOf returns the tracer of the attempt that state belongs to, nil without
// tracing.
func tracerOf(state fwk.CycleState) trace.Tracer {
	if own, ok := state.(*CycleState); ok && own != nil {
		return own.tracer
	}
	return nil
}

// pointSpan measures the run of an extension point for metrics and tracing.
type pointSpan struct {
	*Framework
	point string
	begin time.Time
	// span is nil without tracing.
	span trace.Span
}

// beginPoint starts a pointSpan. Requests of plugins with the returned context
// belong to its span.
func (f *Framework) beginPoint(ctx context.Context, state fwk.CycleState, point string) (context.Context, pointSpan) {
	v := pointSpan{Framework: f, point: point, begin: f.Clock.Now()}
	if tracer := tracerOf(state); tracer != nil {
		ctx, v.span = tracer.Start(ctx, point, trace.WithTimestamp(v.begin))
	}
	return ctx, v
}

// end records the duration and the span. It must be deferred with a pointer to
// the returned status.
func (v pointSpan) end(status **fwk.Status) {
	end := v.observePointDuration(v.point, v.begin, (*status).Code())
	if v.span != nil {
		endSpan(v.span, end, *status)
	}
}

// ObservePoint records the time since begin at an extension point that is run
// node by node, such as Filter, and returns the current time.
func (f *Framework) ObservePoint(ctx context.Context, state fwk.CycleState, point string, begin time.Time, code fwk.Code) time.Time {
	end := f.observePointDuration(point, begin, code)
	if tracer := tracerOf(state); tracer != nil {
		_, span := tracer.Start(ctx, point, trace.WithTimestamp(begin))
		endSpan(span, end, fwk.NewStatus(code))
	}
	return end
}

// WaitOnPermit waits until the Permit plugins that asked the pod to wait have
// decided. It returns at once if none did.
func (f *Framework) WaitOnPermit(ctx context.Context, state fwk.CycleState, uid types.UID) *fwk.Status {
	tracer := tracerOf(state)
	if tracer == nil || !f.WaitingPods.Has(uid) {
		return f.WaitingPods.Await(ctx, uid)
	}
	ctx, span := tracer.Start(ctx, "WaitOnPermit", trace.WithTimestamp(f.Clock.Now()))
	status := f.WaitingPods.Await(ctx, uid)
	endSpan(span, f.Clock.Now(), status)
	return status
}

// endSpan ends the span of an extension point. Only an error, not a rejection,
// marks the span as failed.
func endSpan(span trace.Span, end time.Time, status *fwk.Status) {
	span.SetAttributes(statusKey.String(status.Code().String()))
	if status != nil && status.Plugin() != "" {
		span.SetAttributes(pluginKey.String(status.Plugin()))
	}
	switch message := SpanText(status.Message()); {
	case status.IsError():
		span.SetStatus(codes.Error, message)
	case message != "":
		span.SetAttributes(MessageKey.String(message))
	}
	span.End(trace.WithTimestamp(end))
}
