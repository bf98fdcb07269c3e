package scheduler

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// attemptSpan is the name of an attempt's span, the root of its trace.
const attemptSpan = "Schedule"

// Attributes of an attempt's span, beside OpenTelemetry's own for pods and nodes.
const (
	profileKey    = attribute.Key("berth.profile")
	generationKey = attribute.Key("berth.generation")
	hashKey       = attribute.Key("berth.hash")
	attemptKey    = attribute.Key("berth.attempt")
	resultKey     = attribute.Key("berth.result")
	evaluatedKey  = attribute.Key("berth.nodes.evaluated")
	feasibleKey   = attribute.Key("berth.nodes.feasible")
)

// Results of attempts for which no decision is recorded.
const (
	// resultGone: the pod was deleted, or another scheduler bound it.
	resultGone = "Gone"
	// resultHandedOver: this process lost the leadership; the next leader tries the pod.
	resultHandedOver = "HandedOver"
)

// startTrace starts the span of an attempt and returns a context with it. It returns
// ctx unchanged where the attempt is not sampled.
func (s *Scheduler) startTrace(ctx context.Context, t *schedulingCycle) context.Context {
	if s.options.Tracer == nil {
		return ctx
	}
	traced, span := s.options.Tracer.Start(ctx, attemptSpan, trace.WithNewRoot(), trace.WithTimestamp(t.start))
	if !span.IsRecording() {
		return ctx
	}
	blueprint := t.generation.Blueprint()
	span.SetAttributes(
		semconv.K8SNamespaceName(t.Pod.Namespace), semconv.K8SPodName(t.Pod.Name), semconv.K8SPodUID(string(t.Pod.UID)),
		profileKey.String(blueprint.Name), generationKey.Int64(blueprint.Generation), hashKey.String(blueprint.Hash),
		attemptKey.Int(t.Count),
	)
	t.span = span
	t.state.SetTracer(s.options.Tracer)
	return traced
}

// traceDecision sets the span's attributes and status from the attempt's decision;
// err is the attempt's error.
func (t *schedulingCycle) traceDecision(d decision.Decision, err error) {
	if t.span == nil {
		return
	}
	var unfit *framework.FitError
	switch {
	case t.placement != nil:
		t.span.SetAttributes(semconv.K8SNodeName(d.Node), evaluatedKey.Int(d.Evaluated), feasibleKey.Int(d.Feasible))
	case errors.As(err, &unfit):
		t.span.SetAttributes(evaluatedKey.Int(unfit.Diagnosis.NodeToStatus.Len()), feasibleKey.Int(0))
	}
	switch message := framework.SpanText(d.Message); {
	case d.Result == v1alpha1.ResultError:
		t.span.SetStatus(codes.Error, message)
	case message != "":
		t.span.SetAttributes(framework.MessageKey.String(message))
	}
	t.traceResult(d.Result)
}

// traceResult sets the span's result attribute.
func (t *schedulingCycle) traceResult(result v1alpha1.DecisionResult) {
	if t.span != nil {
		t.span.SetAttributes(resultKey.String(string(result)))
	}
}

// endTrace ends the attempt's span.
func (s *Scheduler) endTrace(t *schedulingCycle) {
	if t.span != nil {
		t.span.End(trace.WithTimestamp(s.options.Clock.Now()))
	}
}
