package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/probe"
)

// collectSpans enables tracing with that sampler, and returns the exporter of ended spans.
func (env *testEnv) collectSpans(sampler sdk.Sampler) *tracetest.InMemoryExporter {
	exporter := tracetest.NewInMemoryExporter()
	env.options.Tracer = sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSyncer(exporter)).Tracer("test")
	return exporter
}

// failure is the pseudo-attribute for a span's error description.
const failure attribute.Key = "failed"

// spanAttributes returns a span's name and those of the attributes that it has.
func spanAttributes(span tracetest.SpanStub, keys ...attribute.Key) string {
	var said []string
	for _, a := range span.Attributes {
		if slices.Contains(keys, a.Key) {
			said = append(said, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
		}
	}
	slices.Sort(said)
	text := span.Name + " " + strings.Join(said, " ")
	if span.Status.Description != "" && slices.Contains(keys, failure) {
		text += " failed: " + span.Status.Description
	}
	return strings.TrimSpace(text)
}

// spanPoints returns the spans below an attempt's in the order of their ends, each with its
// result unless it succeeded.
func spanPoints(t *testing.T, a attemptTrace) string {
	t.Helper()
	var names []string
	for _, span := range a.spans {
		if span.SpanContext.Equal(a.root.SpanContext) {
			continue
		}
		if span.Parent.SpanID() != a.root.SpanContext.SpanID() {
			t.Errorf("%s is not below the attempt", span.Name)
		}
		if span.StartTime.Before(a.root.StartTime) || span.EndTime.After(a.root.EndTime) {
			t.Errorf("%s is from %v to %v, the attempt from %v to %v", span.Name, span.StartTime, span.EndTime, a.root.StartTime, a.root.EndTime)
		}
		words := strings.NewReplacer(" berth.status=Success", "", "berth.status=", "", "berth.plugin=", "by ")
		names = append(names, words.Replace(spanAttributes(span, "berth.status", "berth.plugin", failure)))
	}
	return strings.Join(names, ", ")
}

func TestAnAttemptIsATrace(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1.Resource("pods"), "a", errors.New("no"))
	const cycle = "PreFilter, Filter, Score, Reserve, Permit, PreBindPreFlight Skip, "
	for name, c := range map[string]struct {
		with         func(env *testEnv)
		want, points string
	}{
		"a pod that is bound": {
			func(*testEnv) {},
			"berth.nodes.evaluated=2 berth.nodes.feasible=2 berth.result=Bound k8s.node.name=n1",
			cycle + "Bind, PostBind",
		},
		"a pod that no node fits": {
			func(env *testEnv) { env.a.SetStatus("Filter", probe.Reject("too small")) },
			"berth.message=0/2 nodes are available: 2 too small. berth.nodes.evaluated=2 berth.nodes.feasible=0 berth.result=Unschedulable",
			"PreFilter, Filter, PostFilter by A",
		},
		"a pod that a Reserve plugin rejects": {
			func(env *testEnv) { env.a.SetStatus("Reserve", probe.Reject("taken")) },
			"berth.message=0/1 nodes are available: 1 taken. berth.nodes.evaluated=2 berth.nodes.feasible=2 berth.result=Unschedulable k8s.node.name=n1",
			"PreFilter, Filter, Score, Reserve by A Unschedulable, Unreserve",
		},
		"a pod whose Binding is rejected": {
			func(env *testEnv) { env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: forbidden}) },
			"berth.nodes.evaluated=2 berth.nodes.feasible=2 berth.result=Error k8s.node.name=n1" +
				` failed: running Bind plugin "DefaultBinder": pods "a" is forbidden: no`,
			cycle + `Bind by DefaultBinder Error failed: running Bind plugin "DefaultBinder": pods "a" is forbidden: no, Unreserve`,
		},
		"a pod that waits on Permit": {
			func(env *testEnv) {
				env.a.PermitTimeout = time.Minute
				env.a.SetStatus("Permit", probe.Wait)
				time.AfterFunc(time.Second, func() { env.waitingPods.Each(func(p fwk.WaitingPod) { p.Allow("A") }) })
			},
			"berth.nodes.evaluated=2 berth.nodes.feasible=2 berth.result=Bound k8s.node.name=n1",
			"PreFilter, Filter, Score, Reserve, Permit Wait, PreBindPreFlight Skip, WaitOnPermit, Bind, PostBind",
		},
		"a pod that is deleted during Bind": {
			func(env *testEnv) {
				env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: errors.New("no answer"), Before: func() { env.cluster.DeletePod(webPod("a")) }})
			},
			"berth.result=Gone",
			cycle + `Bind by DefaultBinder Error failed: running Bind plugin "DefaultBinder": no answer, Unreserve`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				spans := env.collectSpans(sdk.AlwaysSample())
				env.apply("one")
				end := env.startLeading()
				c.with(env)
				env.create(webPod("a"))
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				attempts := byAttempt(spans.GetSpans())
				end()
				if len(attempts) == 0 {
					t.Fatal("no attempt's span ended")
				}
				first := attempts[0]
				env.want("attempt number", spanAttributes(first.root, "berth.attempt", "berth.generation", "berth.hash", "berth.profile", "k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid"),
					"Schedule berth.attempt=1 berth.generation=7 berth.hash=one berth.profile=p k8s.namespace.name=default k8s.pod.name=a k8s.pod.uid=default/a")
				env.want("result", spanAttributes(first.root, "berth.result", "berth.message", "berth.nodes.evaluated", "berth.nodes.feasible", "k8s.node.name", failure), "Schedule "+c.want)
				env.want("extension points", spanPoints(t, first), c.points)
			}, node("n1"), node("n2"))
		})
	}
}

// Each attempt is a trace of its own, with its number.
func TestARetryIsAnotherTrace(t *testing.T) {
	runTest(t, func(env *testEnv) {
		spans := env.collectSpans(sdk.AlwaysSample())
		env.a.SetStatus("Permit", probe.Fail(errors.New("not yet")))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.a.SetStatus("Permit", nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var got []string
		for _, attempt := range byAttempt(spans.GetSpans()) {
			got = append(got, spanAttributes(attempt.root, "berth.attempt", "berth.result", failure))
		}
		env.wantLines("attempts", got,
			`Schedule berth.attempt=1 berth.result=Error failed: running Permit plugin "A": not yet`, "Schedule berth.attempt=2 berth.result=Bound")
	}, node("n1"))
}

// The span of an abandoned attempt ends when the loop abandons it, not when the call returns.
func TestAnAbandonedAttemptEndsItsTrace(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		spans := env.collectSpans(sdk.AlwaysSample())
		env.create(faultyPod("a", "Filter hangs"))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		attempts := byAttempt(spans.GetSpans())
		if len(attempts) != 1 || attempts[0].root.EndTime.Sub(attempts[0].root.StartTime) != framework.CallTimeout {
			t.Fatalf("ended: %v", attempts)
		}
		env.want("the attempt", spanAttributes(attempts[0].root, "berth.result", failure),
			`Schedule berth.result=Error failed: plugin "Odd" did not come back from Filter within 10s`)
		o.unblock()
		synctest.Wait()
		if n := len(byAttempt(spans.GetSpans())); n != 1 {
			t.Errorf("%d attempts ended", n)
		}
	})
}

func TestAnAttemptThatIsNotSampledIsNotTraced(t *testing.T) {
	runTest(t, func(env *testEnv) {
		spans := env.collectSpans(sdk.NeverSample())
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.want("node", env.nodeOf("a"), "n1")
		if got := spans.GetSpans(); len(got) > 0 {
			t.Errorf("spans: %v", got)
		}
	}, node("n1"))
}

// attemptTrace holds the spans of one attempt.
type attemptTrace struct {
	root  tracetest.SpanStub
	spans tracetest.SpanStubs
}

// byAttempt groups spans by trace, in the order in which the attempts ended.
func byAttempt(spans tracetest.SpanStubs) (all []attemptTrace) {
	of := map[trace.TraceID]tracetest.SpanStubs{}
	for _, span := range spans {
		id := span.SpanContext.TraceID()
		of[id] = append(of[id], span)
		if !span.Parent.IsValid() {
			all = append(all, attemptTrace{root: span})
		}
	}
	for i := range all {
		all[i].spans = of[all[i].root.SpanContext.TraceID()]
	}
	return all
}
