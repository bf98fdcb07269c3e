package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
)

// sampleOf returns a sample with the stack, the innermost function first.
func sampleOf(values []int64, stack ...string) *pprof.Sample {
	s := &pprof.Sample{Value: values}
	for _, name := range stack {
		s.Location = append(s.Location, &pprof.Location{Line: []pprof.Line{{Function: &pprof.Function{Name: name}}}})
	}
	return s
}

const berthModule = "github.com/berthdev/berth/"

func TestASampleBelongsToTheFirstPartOnItsStack(t *testing.T) {
	for sentence, test := range map[string]struct {
		want  string
		stack []string
	}{
		"a plugin of the cycle": {"cycle", []string{
			berthModule + "scheduler/plugins/noderesources.(*Fit).Filter", berthModule + "scheduler/cycle.(*Cycle).Run", berthModule + "scheduler.(*Scheduler).Start",
		}},
		"TLS of a bind": {"TLS", []string{
			"crypto/aes.gcmAesEnc", "crypto/tls.(*Conn).Write", "golang.org/x/net/http2.(*ClientConn).RoundTrip", berthModule + "scheduler/binding.(*Binder).bind",
		}},
		"a bind":                     {"bind and statuses", []string{"golang.org/x/net/http2.(*ClientConn).RoundTrip", berthModule + "scheduler/binding.(*Binder).bind"}},
		"a pod of a watch":           {"decode", []string{"k8s.io/api/core/v1.(*Pod).Unmarshal", "k8s.io/client-go/tools/cache.(*Reflector).watch"}},
		"the annotation of a bind":   {"annotation", []string{berthModule + "scheduler/decision.Append", berthModule + "scheduler/binding.(*Binder).bind"}},
		"marking by an allocation":   {"garbage collection", []string{"runtime.gcAssistAlloc", "runtime.mallocgc", berthModule + "scheduler/queue.(*Queue).Add"}},
		"an idle thread":             {"Go's scheduler and network poller", []string{"runtime.futex", "runtime.findRunnable", "runtime.mcall"}},
		"a package with a like name": {partOfRest, []string{"example.com/scheduler-queue.Add"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := partOf(sampleOf(nil, test.stack...)); got != test.want {
				t.Errorf("part %q, want %q", got, test.want)
			}
		})
	}
}

func TestPartsShareTheCPUOfAPod(t *testing.T) {
	queue, cycle := berthModule+"scheduler/queue.(*Queue).Pop", berthModule+"scheduler/cycle.(*Cycle).Run"
	p := profiles{
		cpu:    &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "samples"}, {Type: "cpu"}}, Sample: []*pprof.Sample{sampleOf([]int64{1, 100}, queue), sampleOf([]int64{1, 200}, cycle), sampleOf([]int64{1, 100}, cycle)}},
		allocs: &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "alloc_objects"}, {Type: "alloc_space"}}, Sample: []*pprof.Sample{sampleOf([]int64{40, 4000}, queue)}},
	}
	want := []partCost{{Part: "cycle", Share: 0.75, Micros: 750}, {Part: "queue", Share: 0.25, Micros: 250, Allocs: 4, Bytes: 400}}
	got := p.partCosts(10, 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(want, meanParts([]run{{Parts: got}, {}, {Parts: got}})); diff != "" {
		t.Errorf("the mean of equal runs (-want,+got):\n%s", diff)
	}
}
