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
	"github.com/berthdev/berth/scheduler/trial"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// withPods lets trials be made, on node n, where the pod runs is, and with the
// given pods of "p" that wait, one after the other.
func (w *testEnv) withPods(names ...string) *testEnv {
	nodes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	pods := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	_ = nodes.Add(fixture.Node("n").Obj()) // what has a name can be added
	_ = pods.Add(fixture.Pod("shop/runs").SchedulerName("p").On("n").Obj())
	for i, name := range names {
		_ = pods.Add(fixture.Pod("shop/" + name).SchedulerName("p").CreationOrder(i).Obj())
	}
	source := trial.Source{
		Nodes: corelisters.NewNodeLister(nodes), Pods: corelisters.NewPodLister(pods), Cache: clustercache.New(),
		Unsupported: func(*v1.Pod) (string, string) { return "", "" },
	}
	w.options.Trials = &Trials{ClusterState: source.Read, HostFor: func(_ string, town *trial.Sandbox) framework.Host {
		return framework.Host{
			Clock: clock.RealClock{}, WaitingPods: framework.NewWaitingPods(clock.RealClock{}), Lister: town.Lister(), Nominator: town.Nominator(),
		}
	}}
	return w
}

// on lets the plugin answer so.
func (w *testEnv) setAnswer(plugin, point string, answer probe.StatusFunc) {
	w.blueprint(0, "", plugin)
	w.probes[plugin].SetStatus(point, answer)
}

// minder answers at PreFilter by the name of the pod.
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

// minds lets the plugin answer so about one pod, whenever it is asked.
func (w *testEnv) setAnswerForPod(plugin, pod string, answer probe.StatusFunc) {
	w.blueprint(0, "", plugin)
	registration := w.options.Registry[plugin]
	registration.New = func(context.Context, runtimeapi.Object, fwk.Handle) (fwk.Plugin, error) {
		return &perPodPlugin{w.probes[plugin], map[string]probe.StatusFunc{pod: answer}}, nil
	}
	w.options.Registry[plugin] = registration
}

func TestTrialOutcomes(t *testing.T) {
	for sentence, c := range map[string]struct {
		// old and new are what A, which runs, and B, which is on trial, do.
		old, new func(w *testEnv)
		want     string
		err      string
	}{
		"all is as before": {want: "3 of 3 fit, 3 did; lost []"},
		"who ran and who waits has no place any more": {
			new:  func(w *testEnv) { w.setAnswer("B", "Filter", probe.Reject("full")) },
			want: "0 of 3 fit, 3 did; lost [runs first second]",
		},
		"who waited has a place": {
			old:  func(w *testEnv) { w.setAnswer("A", "Filter", probe.Reject("full")) },
			want: "3 of 3 fit, 0 did; lost []",
		},
		"a plugin panics about one pod": {
			new:  func(w *testEnv) { w.setAnswerForPod("B", "first", probe.Panic) },
			want: "2 of 3 fit, 3 did; lost [first]",
			err:  `on trial it could not decide about 1 of 3 pods: pod shop/first: plugin "B" panicked in PreFilter: the probe panics`,
		},
		"a plugin errs about all": {
			new:  func(w *testEnv) { w.setAnswer("B", "PreFilter", probe.Fail(errors.New("no licence"))) },
			want: "0 of 3 fit, 3 did; lost [runs first second]",
			err: `on trial it could not decide about 3 of 3 pods: pod shop/runs: running PreFilter plugin "B": no licence; ` +
				`pod shop/first: running PreFilter plugin "B": no licence; pod shop/second: running PreFilter plugin "B": no licence`,
		},
		"a plugin errs about the pod that what runs fails about": {
			old:  func(w *testEnv) { w.setAnswerForPod("A", "first", probe.Panic) },
			new:  func(w *testEnv) { w.setAnswerForPod("B", "first", probe.Fail(errors.New("no"))) },
			want: "2 of 3 fit, 2 did; lost []",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t).withPods("first", "second")
			w.apply(1, "one", "A")
			for _, do := range []func(*testEnv){c.old, c.new} {
				if do != nil {
					do(w)
				}
			}
			b := w.blueprint(2, "two", "B")
			w.journal.Take()
			tried, err := w.Try(t.Context(), b)
			if got := trialText(tried); got != c.want {
				t.Errorf("tried: %s, want %s", got, c.want)
			}
			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("error %s, want %s", got, c.err)
			}
			if kept, ok := w.LastTrial("p"); !ok || trialText(kept) != c.want || kept.Hash != "two" || kept.Time.IsZero() {
				t.Errorf("remembered: %+v", kept)
			}
			w.wantRunning("one", 1)
			w.wantTrialCallsOnly()
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

// wantTrialOnly fails the test unless plugins were asked where a pod goes, and
// closed, and nothing else happened.
func (w *testEnv) wantTrialCallsOnly() {
	w.t.Helper()
	points := map[string]bool{}
	for _, line := range w.journal.Take() {
		plugin, point, _ := strings.Cut(line, ".")
		point, _, _ = strings.Cut(point, " ")
		points[point] = true
		if plugin != "A" && plugin != "B" {
			w.t.Errorf("on trial %s happened", line)
		}
	}
	for _, point := range []string{"Reserve", "Unreserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind", "PostFilter"} {
		if points[point] {
			w.t.Errorf("%s was asked on trial", point)
		}
	}
	if !points["Close"] {
		w.t.Error("the plugins that were on trial are not closed")
	}
}

func TestTheFirstTrialOfANameIsNotCompared(t *testing.T) {
	w := newTestEnv(t).withPods("first")
	w.setAnswer("B", "Filter", probe.Panic)
	tried, err := w.Try(t.Context(), w.blueprint(1, "one", "B"))
	var failed *TrialError
	if !errors.As(err, &failed) || trialText(tried) != "0 of 2 fit; lost []" {
		t.Errorf("%s, %v", trialText(tried), err)
	}
	w.wantRunning("", 0)
	w.Delete("p")
	if _, ok := w.LastTrial("p"); ok {
		t.Error("the trial of a profile that is gone is remembered")
	}
}

func TestAFailedBuildLeavesNoTrial(t *testing.T) {
	w := newTestEnv(t).withPods("first")
	w.setAnswer("B", "New", probe.Fail(errors.New("no")))
	_, err := w.Try(t.Context(), w.blueprint(1, "one", "B"))
	var failed *BuildError
	if !errors.As(err, &failed) || failed.Plugin != "B" {
		t.Errorf("%v, want a BuildError that names B", err)
	}
	if _, ok := w.LastTrial("p"); ok {
		t.Error("a trial is remembered that there was not")
	}
}

func TestATrialAbandonsPluginsThatHang(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		w.withPods("first", "second")
		w.apply(1, "one", "A")
		release := make(chan struct{})
		w.setAnswerForPod("B", "first", func() *fwk.Status { <-release; return nil })
		b := w.blueprint(2, "two", "B")
		w.journal.Take()
		want := `on trial, after 1 pod: pod shop/first: plugin "B" did not come back from PreFilter within 2s`
		for range 2 {
			tried, err := w.Try(t.Context(), b)
			var failed *TrialError
			if !errors.As(err, &failed) || err.Error() != want || tried.Sampled != 1 {
				t.Errorf("%s, %v, want %s", trialText(tried), err, want)
			}
		}
		if err := w.Apply(t.Context(), b); err == nil || err.Error() != want {
			t.Errorf("%v: it is built while it hangs", err)
		}
		w.wantRunning("one", 1)
		synctest.Wait()
		if lines := w.journal.Take(); slices.Contains(lines, "B.Close") {
			t.Errorf("closed under a call: %q", lines)
		}
		close(release)
		synctest.Wait()
		w.wantTrialCallsOnly()
		if tried, err := w.Try(t.Context(), b); err != nil {
			t.Errorf("%v, %s: after it has come back", err, trialText(tried))
		}
	})
}

func TestATrialLeavesNoMetricSeries(t *testing.T) {
	w := newTestEnv(t).withPods("first", "second")
	w.setAnswer("B", "Filter", probe.Reject("full"))
	b := w.blueprint(1, "one", "B")
	before := metricSamples()
	if tried, err := w.Try(t.Context(), b); err != nil || tried.Sampled != 3 {
		t.Fatal(trialText(tried), err)
	}
	if diff := cmp.Diff(before, metricSamples()); diff != "" {
		t.Errorf("what is measured (-before +after):\n%s", diff)
	}
}

// samples are all series of the rooms that plugins are asked by.
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
	w, h := newLeakTestEnv(t)
	w.withPods("first")
	if err := w.Apply(t.Context(), leakyBlueprint("p", 0)); err != nil {
		t.Fatal(err)
	}
	before := h.stableCounts(w)
	for i := range rounds {
		if _, err := w.Try(context.Background(), leakyBlueprint("p", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	h.wantCounts(w, before)
}
