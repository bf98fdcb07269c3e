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

// What a span of an extension point says, beside its name.
const (
	statusKey  = attribute.Key("berth.status")
	pluginKey  = attribute.Key("berth.plugin")
	MessageKey = attribute.Key("berth.message")
)

// spanTextLimit is the longest text that a span holds, in bytes.
const spanTextLimit = 1024

// SpanText is text as a span may hold it: it is bounded, and UTF-8. Of other text
// the exporter makes nothing, nor of any span of the same batch.
func SpanText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), spanTextLimit)], "\uFFFD")
}

// Trace lets each extension point that the attempt comes to have a span of t, under
// that of the context in which it is run.
func (c *CycleState) SetTracer(t trace.Tracer) { c.tracer = t }

// tracer returns that of the attempt that state belongs to; nil: it is not traced.
func tracerOf(state fwk.CycleState) trace.Tracer {
	if ours, ok := state.(*CycleState); ok && ours != nil {
		return ours.tracer
	}
	return nil
}

// visit is the time that a pod spends at an extension point.
type pointSpan struct {
	*Framework
	point string
	begin time.Time
	// span tells of it; nil in an attempt that is not traced.
	span trace.Span
}

// visit begins one. What plugins ask of others with the context that it returns
// belongs to its span.
func (f *Framework) beginPoint(ctx context.Context, state fwk.CycleState, point string) (context.Context, pointSpan) {
	v := pointSpan{Framework: f, point: point, begin: f.Clock.Now()}
	if tracer := tracerOf(state); tracer != nil {
		ctx, v.span = tracer.Start(ctx, point, trace.WithTimestamp(v.begin))
	}
	return ctx, v
}

// over ends and records it. Use it deferred, with a pointer to the status that is
// returned in the end.
func (v pointSpan) end(status **fwk.Status) {
	end := v.observePointDuration(v.point, v.begin, (*status).Code())
	if v.span != nil {
		endSpan(v.span, end, *status)
	}
}

// ObservePoint records the time since begin at an extension point that is run
// node by node, such as Filter, and returns the end of that time.
func (f *Framework) ObservePoint(ctx context.Context, state fwk.CycleState, point string, begin time.Time, code fwk.Code) time.Time {
	end := f.observePointDuration(point, begin, code)
	if tracer := tracerOf(state); tracer != nil {
		_, span := tracer.Start(ctx, point, trace.WithTimestamp(begin))
		endSpan(span, end, fwk.NewStatus(code))
	}
	return end
}

// WaitOnPermit waits for the word of the Permit plugins that asked the pod to wait,
// if any did.
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

// endSpan ends the span of an extension point, with the status that ended it. A
// refusal is an answer; only an error is one of the span, too.
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
