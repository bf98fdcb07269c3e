package framework

import (
	"strings"
	"testing"
	"unicode/utf8"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

func TestATrialRecordsTheLastCall(t *testing.T) {
	trial := &Trial{}
	f := &Framework{Host: Host{Clock: clock.RealClock{}}, trial: trial}
	if !f.OnTrial() || trial.LastCall() != (Call{}) {
		t.Errorf("on trial: %v, after %v", f.OnTrial(), trial.LastCall())
	}
	for _, call := range []Call{{"A", "PreFilter"}, {"A", "Filter"}, {"B", "Filter"}, {"B", "Filter"}} {
		f.trial.recordCall(call.Plugin, call.Point)
		if trial.LastCall() != call {
			t.Errorf("last is %v, want %v", trial.LastCall(), call)
		}
	}
	trial.Clear()
	if trial.LastCall() != (Call{}) {
		t.Errorf("last is %v after Clear", trial.LastCall())
	}
}

func TestWithoutATrialNoCallIsRecorded(t *testing.T) {
	f := &Framework{}
	if n := testing.AllocsPerRun(100, func() { f.trial.recordCall("A", "Filter") }); n != 0 || f.OnTrial() {
		t.Errorf("%v allocations, on trial: %v", n, f.OnTrial())
	}
}

func TestSpanText(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"valid text does not change":          {"0/2 nodes", "0/2 nodes"},
		"invalid UTF-8 is replaced":           {"not \xff UTF-8", "not \uFFFD UTF-8"},
		"long text is truncated":              {strings.Repeat("x", 2000), strings.Repeat("x", 1024)},
		"a character cut in half is replaced": {strings.Repeat("x", 1023) + "ä", strings.Repeat("x", 1023) + "\uFFFD"},
	} {
		if got := SpanText(c.text); got != c.want || !utf8.ValidString(got) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// pointRunner returns a function that runs one empty extension point in an
// attempt with this tracer.
func pointRunner(t testing.TB, tracer trace.Tracer) func() {
	f := &Framework{profile: "p", Host: Host{Clock: clock.RealClock{}}, successObservers: successObservers("p")}
	state := NewCycleState()
	state.SetTracer(tracer)
	return func() {
		var status *fwk.Status
		_, point := f.beginPoint(t.Context(), state, "PreFilter")
		defer point.end(&status)
	}
}

func TestAnUntracedAttemptDoesNotAllocate(t *testing.T) {
	if allocs := testing.AllocsPerRun(1000, pointRunner(t, nil)); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkPointSpan(b *testing.B) {
	provider := sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter()))
	defer provider.Shutdown(b.Context())
	for name, tracer := range map[string]trace.Tracer{"off": nil, "traced": provider.Tracer("test")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for visit := pointRunner(b, tracer); b.Loop(); {
				visit()
			}
		})
	}
}
