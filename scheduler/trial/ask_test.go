package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// real is work beside the caller, in the time of the test.
var realRuntime = Runtime{
	Clock: clock.RealClock{}, Go: func(work func()) { go work() }, Wait: framework.Block,
	QueuedInfo: func(pod *v1.Pod) fwk.QueuedEntityInfo { return queuedPod{pod: pod} },
}

// queued is a pod in a queue, as far as probes look at it.
type queuedPod struct {
	fwk.QueuedEntityInfo
	pod *v1.Pod
}

func (q queuedPod) GetPriority() int32      { return corev1.PodPriority(q.pod) }
func (q queuedPod) GetTimestamp() time.Time { return q.pod.CreationTimestamp.Time }

// says are answers as text.
func resultTexts(answers Results) []string {
	out := []string{}
	for _, answer := range answers {
		switch {
		case answer == nil:
			out = append(out, "fits")
		case isFailure(answer):
			out = append(out, "fault: "+answer.Error())
		default:
			out = append(out, answer.Error())
		}
	}
	return out
}

func TestResultOfOnePod(t *testing.T) {
	two := []metav1.Object{fixture.Node("a").Obj(), fixture.Node("b").Obj()}
	for sentence, c := range map[string]struct {
		nodes []metav1.Object
		on    map[string]probe.StatusFunc
		want  string
	}{
		"a pod that fits":                        {nodes: two, want: "fits"},
		"a pod that fits on one node":            {nodes: two, on: map[string]probe.StatusFunc{"Filter a": probe.Reject("full")}, want: "fits"},
		"a pod that fits nowhere":                {nodes: two, on: map[string]probe.StatusFunc{"Filter": probe.Reject("full")}, want: "0/2 nodes are available: 2 full."},
		"no nodes":                               {want: "no nodes available to schedule pods"},
		"a pod that may not enter the queue":     {nodes: two, on: map[string]probe.StatusFunc{"PreEnqueue": probe.Reject("shut")}, want: "plugin A does not let it into the queue: shut"},
		"a panic before the queue":               {nodes: two, on: map[string]probe.StatusFunc{"PreEnqueue": probe.Panic}, want: `fault: plugin "A" panicked in PreEnqueue: the probe panics`},
		"a panic in PreFilter":                   {nodes: two, on: map[string]probe.StatusFunc{"PreFilter": probe.Panic}, want: `fault: plugin "A" panicked in PreFilter: the probe panics`},
		"a panic in Filter":                      {nodes: two, on: map[string]probe.StatusFunc{"Filter b": probe.Panic}, want: `fault: plugin "A" panicked in Filter: the probe panics`},
		"an error in PreScore":                   {nodes: two, on: map[string]probe.StatusFunc{"PreScore": probe.Fail(errors.New("no"))}, want: `fault: running PreScore plugin "A": no`},
		"an error in Score":                      {nodes: two, on: map[string]probe.StatusFunc{"Score": probe.Fail(errors.New("no"))}, want: `fault: running Score plugins: plugin "A" failed with: no`},
		"what comes after the node is not asked": {nodes: two, on: map[string]probe.StatusFunc{"Reserve": probe.Panic, "Permit": probe.Panic, "PreBind": probe.Panic, "Bind": probe.Panic}, want: "fits"},
		"nobody is asked to make room":           {nodes: two, on: map[string]probe.StatusFunc{"Filter": probe.Reject("full"), "PostFilter": probe.Panic}, want: "0/2 nodes are available: 2 full."},
	} {
		t.Run(sentence, func(t *testing.T) {
			scene := newSource(append(slices.Clone(c.nodes), podOfProfile("web").Obj())...).mustRead(t)
			town, last, a := scene.NewSandbox(), &framework.Trial{}, newProbe("A")
			a.Statuses = c.on
			answers, err := town.Evaluate(t.Context(), realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
			if diff := cmp.Diff([]string{c.want}, resultTexts(answers)); diff != "" || err != nil {
				t.Errorf("%v; answers (-want +got):\n%s", err, diff)
			}
		})
	}
}

// fits lets as many pods onto a node as it has room for.
func rejectAbove(room int) func(node fwk.NodeInfo) *fwk.Status {
	return func(node fwk.NodeInfo) *fwk.Status {
		if len(node.GetPods()) < room {
			return nil
		}
		return fwk.NewStatus(fwk.Unschedulable, "full")
	}
}

func TestPodsThatTakeResourcesInTheSandbox(t *testing.T) {
	first, second, third := podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj(), podOfProfile("third").CreationOrder(3).Obj()
	for sentence, c := range map[string]struct {
		pods     []metav1.Object
		promised *v1.Pod
		want     []string
	}{
		"who fits takes its room, which the next does not find": {
			pods: []metav1.Object{first, second, third},
			want: []string{"fits", "fits", "0/1 nodes are available: 1 full."},
		},
		"who runs is tried without the room that it takes, and keeps it": {
			pods: []metav1.Object{assignedPod("runs", "a", 1).Obj(), fixture.Pod("other").On("a").Obj(), first},
			want: []string{"fits", "0/1 nodes are available: 1 full."},
		},
		"who is promised room takes it, and nobody else": {
			pods: []metav1.Object{first, second, third}, promised: third,
			want: []string{"fits", "0/1 nodes are available: 1 full.", "fits"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			scene := newSourceWithNomination(t, c.promised, append(c.pods, fixture.Node("a").Obj())...).mustRead(t)
			town, last := scene.NewSandbox(), &framework.Trial{}
			before := contents(town)
			for range 2 { // the second who asks finds what the first one found
				answers, err := town.Evaluate(t.Context(), realRuntime, Candidate{Framework: newFilterFramework(t, town, last, rejectAbove(2))}, last, scene.Pods())
				if diff := cmp.Diff(c.want, resultTexts(answers)); diff != "" || err != nil {
					t.Errorf("%v; answers (-want +got):\n%s", err, diff)
				}
				if diff := cmp.Diff(before, contents(town)); diff != "" {
					t.Errorf("the town (-before +after):\n%s", diff)
				}
			}
		})
	}
}

func TestAPluginThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scene := newSource(fixture.Node("a").Obj(), fixture.Node("b").Obj(), podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj()).mustRead(t)
		town, last, a := scene.NewSandbox(), &framework.Trial{}, newProbe("A")
		release, calls := make(chan struct{}), 0
		a.Statuses["Score"] = func() *fwk.Status {
			if calls++; calls > 2 {
				<-release
			}
			return nil
		}
		answers, err := town.Evaluate(t.Context(), realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
		var late *LateError
		if !errors.As(err, &late) || late.Pod.Name != "second" || late.Call != (framework.Call{Plugin: "A", Point: "Score"}) {
			t.Fatalf("%v, want that A did not come back from Score for the second pod", err)
		}
		if want := `pod default/second: plugin "A" did not come back from Score within 2s`; err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if diff := cmp.Diff([]string{"fits"}, resultTexts(answers)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		close(release)
		<-late.Returned
	})
}

func TestALateResultDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scene := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
		town, last, a := scene.NewSandbox(), &framework.Trial{}, newProbe("A")
		a.Statuses["Filter"] = func() *fwk.Status { time.Sleep(Timeout + 1); return nil }
		slow := realRuntime
		slow.Wait = func(_ context.Context, until <-chan struct{}) error { <-until; return nil }
		answers, err := town.Evaluate(t.Context(), slow, newCandidate(t, town, last, a), last, scene.Pods())
		var late *LateError
		if !errors.As(err, &late) || late.Call != (framework.Call{Plugin: "A", Point: "Filter"}) || len(answers) > 0 {
			t.Errorf("%v, %v; want that A came back too late", resultTexts(answers), err)
		}
	})
}

func TestEvaluationTimeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []metav1.Object{fixture.Node("a").Obj()}
		for i := range 100 {
			objects = append(objects, podOfProfile(fmt.Sprint("web-", i)).CreationOrder(i).Obj())
		}
		scene := newSource(objects...).mustRead(t)
		town, last, a := scene.NewSandbox(), &framework.Trial{}, newProbe("A")
		a.Statuses["PreEnqueue"] = func() *fwk.Status { time.Sleep(Timeout / 10); return nil }
		answers, err := town.Evaluate(t.Context(), realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
		if err != nil || len(answers) != 10 {
			t.Errorf("%d answers, %v; want as many as there was time for, 10", len(answers), err)
		}
	})
}

func TestAnEndedContextIsNoResult(t *testing.T) {
	scene := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
	town, last, a := scene.NewSandbox(), &framework.Trial{}, newProbe("A")
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	a.Statuses["Filter"] = func() *fwk.Status { cancel(); <-release; return nil }
	answers, err := town.Evaluate(ctx, realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
	var late *LateError
	if !errors.As(err, &late) || !errors.Is(err, context.Canceled) || len(answers) > 0 {
		t.Errorf("%v, %v; want that the context ended", resultTexts(answers), err)
	}
	close(release)
	<-late.Returned
}

func TestCompare(t *testing.T) {
	scene := newSource(podOfProfile("a").CreationOrder(1).Obj(), podOfProfile("b").CreationOrder(2).Obj(), podOfProfile("c").CreationOrder(3).Obj()).mustRead(t)
	no, bad := error(&rejection{"full"}), errors.New("broken")
	for sentence, c := range map[string]struct {
		after, before Results
		want          string
	}{
		"nothing ran":                       {Results{nil, no, nil}, nil, "2 of 3 fit; lost []; faults []"},
		"nothing ran, and one fails":        {Results{nil, bad, nil}, nil, "2 of 3 fit; lost []; faults [b: broken]"},
		"nobody waits":                      {Results{}, Results{}, "0 of 0 fit, 0 did; lost []; faults []"},
		"all as before":                     {Results{nil, no, nil}, Results{nil, no, nil}, "2 of 3 fit, 2 did; lost []; faults []"},
		"one is lost and another one gains": {Results{no, nil, nil}, Results{nil, no, nil}, "2 of 3 fit, 2 did; lost [a: full]; faults []"},
		"one fails that was refused":        {Results{nil, bad, nil}, Results{nil, no, nil}, "2 of 3 fit, 2 did; lost []; faults [b: broken]"},
		"one fails that did before":         {Results{nil, bad, nil}, Results{nil, bad, nil}, "2 of 3 fit, 2 did; lost []; faults []"},
		"one fails that fitted":             {Results{bad, nil, nil}, Results{nil, nil, nil}, "2 of 3 fit, 3 did; lost [a: broken]; faults [a: broken]"},
		"there was no time for all":         {Results{nil}, Results{nil}, "1 of 1 fit, 1 did; lost []; faults []"},
		"nor to compare all":                {Results{nil, nil, bad}, Results{nil, nil}, "2 of 2 fit, 2 did; lost []; faults [c: broken]"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := Compare(scene.Pods(), c.after, c.before)
			got := fmt.Sprintf("%d of %d fit", o.FitAfter, o.Sampled)
			if o.Compared {
				got += fmt.Sprintf(", %d did", o.FitBefore)
			}
			list := func(verdicts []PodResult) string {
				var all []string
				for _, v := range verdicts {
					all = append(all, v.Pod+": "+v.Err.Error())
				}
				return "[" + strings.Join(all, ", ") + "]"
			}
			got += "; lost " + list(o.Lost) + "; faults " + list(o.Failures)
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
