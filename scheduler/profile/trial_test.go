package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	clustercache "github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// withPods enables trials on a cluster with node n, on which the pod "runs" is, and with the
// given pending pods of "p", in this order.
func (env *testEnv) withPods(names ...string) *testEnv {
	nodes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	pods := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	_ = nodes.Add(fixture.Node("n").Obj()) // fails only without a name
	_ = pods.Add(fixture.Pod("shop/runs").SchedulerName("p").On("n").Obj())
	for i, name := range names {
		_ = pods.Add(fixture.Pod("shop/" + name).SchedulerName("p").CreationOrder(i).Obj())
	}
	env.options.Cluster = &sandbox.Source{
		Host:  framework.Host{Clock: clock.RealClock{}},
		Nodes: corelisters.NewNodeLister(nodes), Pods: corelisters.NewPodLister(pods), Cache: clustercache.New(),
		Unsupported: func(*v1.Pod) (string, string) { return "", "" },
	}
	return env
}

// setAnswer sets the answer of a plugin at an extension point.
func (env *testEnv) setAnswer(plugin, point string, answer probe.StatusFunc) {
	env.blueprint(0, "", plugin)
	env.probes[plugin].SetStatus(point, answer)
}

// perPodPlugin answers at PreFilter by the name of the pod.
type perPodPlugin struct {
	*probe.Plugin
	answers map[string]probe.StatusFunc
}

func (m *perPodPlugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	result, status := m.Plugin.PreFilter(ctx, state, pod, nodes)
	if answer := m.answers[pod.Name]; answer != nil {
		return result, answer()
	}
	return result, status
}

// setAnswerForPod sets the answer of a plugin at PreFilter for one pod.
func (env *testEnv) setAnswerForPod(plugin, pod string, answer probe.StatusFunc) {
	env.setAnswerForPods(plugin, answer, pod)
}

// setAnswerForPods sets the answer of a plugin at PreFilter for some pods.
func (env *testEnv) setAnswerForPods(plugin string, answer probe.StatusFunc, pods ...string) {
	env.blueprint(0, "", plugin)
	answers := map[string]probe.StatusFunc{}
	for _, pod := range pods {
		answers[pod] = answer
	}
	registration := env.options.Registry[plugin]
	registration.New = func(context.Context, runtimeapi.Object, fwk.Handle) (fwk.Plugin, error) {
		return &perPodPlugin{env.probes[plugin], answers}, nil
	}
	env.options.Registry[plugin] = registration
}

func TestTrialOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		// old and new set up A, which runs, and B, which is tried.
		old, new func(env *testEnv)
		want     string
		err      string
	}{
		"nothing changes": {want: "3 of 3 fit, 3 did; lost []"},
		"running and pending pods no longer fit": {
			new:  func(env *testEnv) { env.setAnswer("B", "Filter", probe.Reject("full")) },
			want: "0 of 3 fit, 3 did; lost [runs first second]",
		},
		"pods fit that did not before": {
			old:  func(env *testEnv) { env.setAnswer("A", "Filter", probe.Reject("full")) },
			want: "3 of 3 fit, 0 did; lost []",
		},
		"a plugin panics for one pod": {
			new:  func(env *testEnv) { env.setAnswerForPod("B", "first", probe.Panic) },
			want: "2 of 3 fit, 3 did; lost [first]",
			err:  `on trial its plugins failed for 1 of 3 pods: pod shop/first: plugin "B" panicked in PreFilter: the probe panics`,
		},
		"a plugin fails for all pods": {
			new:  func(env *testEnv) { env.setAnswer("B", "PreFilter", probe.Fail(errors.New("no licence"))) },
			want: "0 of 3 fit, 3 did; lost [runs first second]",
			err: `on trial its plugins failed for 3 of 3 pods: pod shop/runs: running PreFilter plugin "B": no licence; ` +
				`pod shop/first: running PreFilter plugin "B": no licence; pod shop/second: running PreFilter plugin "B": no licence`,
		},
		"a plugin fails for one pod, and the running one cannot be evaluated": {
			old:  func(env *testEnv) { env.setAnswer("A", "New", probe.Fail(errors.New("no licence"))) },
			new:  func(env *testEnv) { env.setAnswerForPod("B", "first", probe.Fail(errors.New("no"))) },
			want: "2 of 3 fit; lost []",
			err:  `on trial its plugins failed for 1 of 3 pods: pod shop/first: running PreFilter plugin "B": no`,
		},
		"a plugin fails for the pod for which the running one fails": {
			old:  func(env *testEnv) { env.setAnswerForPod("A", "first", probe.Panic) },
			new:  func(env *testEnv) { env.setAnswerForPod("B", "first", probe.Fail(errors.New("no"))) },
			want: "2 of 3 fit, 2 did; lost []",
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t).withPods("first", "second")
			env.apply(1, "one", "A")
			for _, do := range []func(*testEnv){c.old, c.new} {
				if do != nil {
					do(env)
				}
			}
			b := env.blueprint(2, "two", "B")
			env.journal.Take()
			tried, err := env.Try(t.Context(), b)
			if got := trialText(tried); got != c.want {
				t.Errorf("trial: %s, want %s", got, c.want)
			}
			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("error %s, want %s", got, c.err)
			}
			if last, ok := env.LastTrial("p"); !ok || trialText(last) != c.want || last.Hash != "two" || last.Time.IsZero() {
				t.Errorf("last trial: %+v", last)
			}
			env.wantRunning("one", 1)
			env.wantTrialCallsOnly()
		})
	}
}

func trialText(t Trial) string {
	var lost []string
	for _, v := range t.Lost {
		lost = append(lost, v.Pod)
	}
	text := fmt.Sprintf("%d of %d fit", t.FitAfter, t.Sampled)
	if t.Compared {
		text += fmt.Sprintf(", %d did", t.FitBefore)
	}
	return text + fmt.Sprintf("; lost %v", lost)
}

// wantTrialCallsOnly fails the test unless only plugins of the scheduling cycle were called,
// and were closed.
func (env *testEnv) wantTrialCallsOnly() {
	env.t.Helper()
	points := map[string]bool{}
	for _, line := range env.journal.Take() {
		plugin, point, _ := strings.Cut(line, ".")
		point, _, _ = strings.Cut(point, " ")
		points[point] = true
		if plugin != "A" && plugin != "B" {
			env.t.Errorf("%s was called during the trial", line)
		}
	}
	for _, point := range []string{"Reserve", "Unreserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind", "PostFilter"} {
		if points[point] {
			env.t.Errorf("%s was called during the trial", point)
		}
	}
	if !points["Close"] {
		env.t.Error("the plugins of the trial are not closed")
	}
}

func TestCompare(t *testing.T) {
	pods := []*v1.Pod{fixture.Pod("a").Obj(), fixture.Pod("b").Obj(), fixture.Pod("c").Obj()}
	no, bad := error(&sandbox.RejectedError{Message: "full"}), errors.New("broken")
	for name, c := range map[string]struct {
		after, before sandbox.Results
		want          string
	}{
		"nothing runs":                           {sandbox.Results{nil, no, nil}, nil, "2 of 3 fit; lost []; failures []"},
		"nothing runs, and one fails":            {sandbox.Results{nil, bad, nil}, nil, "2 of 3 fit; lost []; failures [b: broken]"},
		"there are no pods":                      {sandbox.Results{}, sandbox.Results{}, "0 of 0 fit, 0 before; lost []; failures []"},
		"nothing changes":                        {sandbox.Results{nil, no, nil}, sandbox.Results{nil, no, nil}, "2 of 3 fit, 2 before; lost []; failures []"},
		"one pod is lost and another one gained": {sandbox.Results{no, nil, nil}, sandbox.Results{nil, no, nil}, "2 of 3 fit, 2 before; lost [a: full]; failures []"},
		"one fails that was rejected":            {sandbox.Results{nil, bad, nil}, sandbox.Results{nil, no, nil}, "2 of 3 fit, 2 before; lost []; failures [b: broken]"},
		"one fails that failed before":           {sandbox.Results{nil, bad, nil}, sandbox.Results{nil, bad, nil}, "2 of 3 fit, 2 before; lost []; failures []"},
		"one fails that fit before":              {sandbox.Results{bad, nil, nil}, sandbox.Results{nil, nil, nil}, "2 of 3 fit, 3 before; lost [a: broken]; failures [a: broken]"},
		"there was no time for all pods":         {sandbox.Results{nil}, sandbox.Results{nil}, "1 of 1 fit, 1 before; lost []; failures []"},
		"there was no time to compare all pods":  {sandbox.Results{nil, nil, bad}, sandbox.Results{nil, nil}, "2 of 2 fit, 2 before; lost []; failures [c: broken]"},
	} {
		t.Run(name, func(t *testing.T) {
			var o Trial
			o.compare(pods, c.after, c.before)
			got := fmt.Sprintf("%d of %d fit", o.FitAfter, o.Sampled)
			if o.Compared {
				got += fmt.Sprintf(", %d before", o.FitBefore)
			}
			list := func(podResults []PodResult) string {
				var all []string
				for _, v := range podResults {
					all = append(all, v.Pod+": "+v.Err.Error())
				}
				return "[" + strings.Join(all, ", ") + "]"
			}
			got += "; lost " + list(o.Lost) + "; failures " + list(o.Failures)
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTheFirstTrialOfANameIsNotCompared(t *testing.T) {
	env := newTestEnv(t).withPods("first")
	env.setAnswer("B", "Filter", probe.Panic)
	tried, err := env.Try(t.Context(), env.blueprint(1, "one", "B"))
	var failed *TrialError
	if !errors.As(err, &failed) || trialText(tried) != "0 of 2 fit; lost []" {
		t.Errorf("%s, %v", trialText(tried), err)
	}
	env.wantRunning("", 0)
	env.Delete("p")
	if _, ok := env.LastTrial("p"); ok {
		t.Error("the trial of a deleted profile is remembered")
	}
}

// A user can make a plugin fail at one pod, such as by a CEL expression that fails when it is
// evaluated. It must not keep the pods of other users from being scheduled.
func TestWhereNothingRunsATrialFailsIfItsPluginsFailForAllPods(t *testing.T) {
	for name, c := range map[string]struct {
		fails []string
		want  string
		err   string
	}{
		"no pod":          {nil, "3 of 3 fit; lost []; failures []", "<nil>"},
		"one pod":         {[]string{"first"}, "2 of 3 fit; lost []; failures [first]", "<nil>"},
		"all but one pod": {[]string{"runs", "first"}, "1 of 3 fit; lost []; failures [runs first]", "<nil>"},
		"all pods": {
			[]string{"runs", "first", "second"}, "0 of 3 fit; lost []; failures [runs first second]",
			`on trial its plugins failed for 3 of 3 pods: pod shop/runs: plugin "B" panicked in PreFilter: the probe panics; ` +
				`pod shop/first: plugin "B" panicked in PreFilter: the probe panics; pod shop/second: plugin "B" panicked in PreFilter: the probe panics`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t).withPods("first", "second")
			env.setAnswerForPods("B", probe.Panic, c.fails...)
			tried, err := env.Try(t.Context(), env.blueprint(1, "one", "B"))
			var failures []string
			for _, f := range tried.Failures {
				failures = append(failures, f.Pod)
			}
			if got := fmt.Sprintf("%s; failures %v", trialText(tried), failures); got != c.want || fmt.Sprint(err) != c.err || tried.Failed != (err != nil) {
				t.Errorf("%s, failed %t, error %v; want %s, error %s", got, tried.Failed, err, c.want, c.err)
			}
		})
	}
}

func TestAFailedBuildLeavesNoTrial(t *testing.T) {
	env := newTestEnv(t).withPods("first")
	env.setAnswer("B", "New", probe.Fail(errors.New("no")))
	_, err := env.Try(t.Context(), env.blueprint(1, "one", "B"))
	var failed *BuildError
	if !errors.As(err, &failed) || failed.Plugin != "B" {
		t.Errorf("%v, want a BuildError that names B", err)
	}
	if _, ok := env.LastTrial("p"); ok {
		t.Error("a trial is remembered although there was none")
	}
}

func TestATrialAbandonsPluginsThatHang(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		env.withPods("first", "second")
		env.apply(1, "one", "A")
		release := make(chan struct{})
		env.setAnswerForPod("B", "first", func() *fwk.Status { <-release; return nil })
		b := env.blueprint(2, "two", "B")
		env.journal.Take()
		want := `on trial, after 1 pod: pod shop/first: plugin "B" did not come back from PreFilter within 2s`
		for range 2 {
			tried, err := env.Try(t.Context(), b)
			var failed *TrialError
			if !errors.As(err, &failed) || err.Error() != want || tried.Sampled != 1 {
				t.Errorf("%s, %v, want %s", trialText(tried), err, want)
			}
		}
		if err := env.Apply(t.Context(), b); err == nil || err.Error() != want {
			t.Errorf("%v: it is built while the plugin hangs", err)
		}
		env.wantRunning("one", 1)
		synctest.Wait()
		if lines := env.journal.Take(); slices.Contains(lines, "B.Close") {
			t.Errorf("closed during a call: %q", lines)
		}
		close(release)
		synctest.Wait()
		env.wantTrialCallsOnly()
		if tried, err := env.Try(t.Context(), b); err != nil {
			t.Errorf("%v, %s: after the plugin returned", err, trialText(tried))
		}
	})
}

func TestATrialLeavesNoMetricSeries(t *testing.T) {
	env := newTestEnv(t).withPods("first", "second")
	env.setAnswer("B", "Filter", probe.Reject("full"))
	b := env.blueprint(1, "one", "B")
	before := metricSamples()
	if tried, err := env.Try(t.Context(), b); err != nil || tried.Sampled != 3 {
		t.Fatal(trialText(tried), err)
	}
	if diff := cmp.Diff(before, metricSamples()); diff != "" {
		t.Errorf("metric series (-before +after):\n%s", diff)
	}
}

// metricSamples returns all series of the packages that call plugins.
func metricSamples() map[string]string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(slices.Concat(framework.Metrics(), cycle.Metrics())...)
	families, _ := registry.Gather()
	out := map[string]string{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			out[family.GetName()+fmt.Sprint(series.GetLabel())] = series.String()
		}
	}
	return out
}

func TestAThousandTrialsLeaveNothingBehind(t *testing.T) {
	env, h := newLeakTestEnv(t)
	env.withPods("first")
	if err := env.Apply(t.Context(), leakyBlueprint("p", 0)); err != nil {
		t.Fatal(err)
	}
	before := h.stableCounts(env, 1)
	for i := range rounds {
		if _, err := env.Try(context.Background(), leakyBlueprint("p", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	h.wantCounts(env, before)
}
