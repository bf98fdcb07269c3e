package unserved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

type recorder struct{ notes []string }

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.notes = append(r.notes, regarding.(*v1.Pod).Name+" "+reason+": "+fmt.Sprintf(note, args...))
}

// testEnv is a Reporter on a manual clock; the profile "batch" runs.
type testEnv struct {
	*Reporter
	store  cache.Indexer
	events *recorder
	clock  *testclock.FakeClock
	// profiles are the profiles that exist; profilesErr is returned instead.
	profiles    []string
	profilesErr error
	heldDeleted []string
	// remembered are the names that NamesOfProfiles returns.
	remembered []string
	// running are the profiles that run.
	running []string
}

func newTestEnv() *testEnv {
	e := &testEnv{
		running: []string{"batch"},
		store:   cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), events: &recorder{},
		clock: testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	e.Reporter = New(Options{
		Pods: corelisters.NewPodLister(e.store), Synced: func() bool { return true }, Profiles: e,
		OtherSchedulers: []string{"default-scheduler"}, ClosestName: compile.Suggest, Recorder: e.events, Clock: e.clock, Log: logr.Discard(),
		HoldReasons: []string{"ProfileDeleted", "ProfilePaused"},
		ProfileExists: func(_ context.Context, name string) (bool, error) {
			return slices.Contains(e.profiles, name), e.profilesErr
		},
		NamesOfProfiles: func(context.Context) ([]string, error) { return e.remembered, e.profilesErr },
	})
	return e
}

// Names and HoldDeleted implement Profiles.
func (e *testEnv) Names() []string         { return e.running }
func (e *testEnv) HoldDeleted(name string) { e.heldDeleted = append(e.heldDeleted, name) }

func (e *testEnv) pod(name, scheduler string, edits ...func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(e.clock.Now()),
	}}
	pod.Spec.SchedulerName = scheduler
	for _, edit := range edits {
		edit(pod)
	}
	_ = e.store.Add(pod)
}

// counted returns the gauge's value by schedulerName.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return values
}

func asBound(p *v1.Pod) { p.Spec.NodeName = "n1" }

func asBoundByBerth(p *v1.Pod) {
	asBound(p)
	p.Annotations = map[string]string{v1alpha1.AnnotationDecision: `{"profile":"shop"}`}
}

func TestAnUnservedPodGetsOneEventAfterAMinute(t *testing.T) {
	e := newTestEnv()
	e.pod("web", "bacth")
	e.clock.Step(ReportAfter - time.Second)
	e.check(context.Background())
	if len(e.events.notes) > 0 {
		t.Errorf("Events %q too early", e.events.notes)
	}
	e.clock.Step(time.Second)
	e.check(context.Background())
	e.check(context.Background())
	want := `web NameNotServed: no scheduler has looked at the pod for 1m0s: no SchedulingProfile that runs is called "bacth", did you mean "batch"?; ` +
		`a name that another scheduler serves belongs in the manager's --other-schedulers`
	if len(e.events.notes) != 1 || e.events.notes[0] != want {
		t.Errorf("Events %q, want once %q", e.events.notes, want)
	}
	if got := counted(t); len(got) != 1 || got["bacth"] != 1 {
		t.Errorf("counted %v, want one pod of bacth", got)
	}
	e.pod("web", "bacth", asBound)
	e.check(context.Background())
	if left := counted(t); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestPodsThatAreNotReportedAsUnserved(t *testing.T) {
	for name, prepare := range map[string]func(e *testEnv){
		"a pod of a running profile":                  func(e *testEnv) { e.pod("web", "batch") },
		"a pod of a known scheduler":                  func(e *testEnv) { e.pod("web", "default-scheduler") },
		"a pod of a scheduler that bound another pod": func(e *testEnv) { e.pod("web", "volcano"); e.pod("other", "volcano", asBound) },
		"a pod with a PodScheduled condition": func(e *testEnv) {
			e.pod("web", "volcano", func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
			})
		},
		"a pod that is being deleted": func(e *testEnv) {
			e.pod("web", "volcano", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: e.clock.Now()} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv()
			prepare(e)
			e.clock.Step(ReportAfter)
			e.check(context.Background())
			if len(e.events.notes) > 0 || len(counted(t)) > 0 {
				t.Errorf("Events %q", e.events.notes)
			}
		})
	}
}

// The API server stores any bytes as spec.schedulerName.
func TestAnyNameCanBeReported(t *testing.T) {
	long := strings.Repeat("é", 450_000)
	for name, c := range map[string]struct{ scheduler, label string }{
		"bytes that are no UTF-8":      {"x\xff", "x\uFFFD"},
		"a name of almost a megabyte":  {long, long[:maxNameLength-4] + "…"},
		"a long name that is no UTF-8": {"x\xff" + long, "x\uFFFD" + long[:maxNameLength-8] + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv()
			e.pod("web", c.scheduler)
			e.pod("held", c.scheduler, func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "ProfileDeleted"}}
			})
			e.clock.Step(ReportAfter)
			e.check(t.Context())
			if got, want := counted(t), map[string]float64{c.label: 1}; !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
			// The API server refuses an Event with a longer note.
			if len(e.events.notes) != 1 || len(e.events.notes[0]) > 1024 || !utf8.ValidString(e.events.notes[0]) {
				t.Errorf("Events %q", e.events.notes)
			}
			if len(e.heldDeleted) > 0 {
				t.Errorf("held the pods of %q, which no profile can have as its name", e.heldDeleted)
			}
		})
	}
}

func TestPodsThatBerthBoundDoNotShowThatTheirNameIsServed(t *testing.T) {
	for sentence, prepare := range map[string]func(e *testEnv){
		"with the annotation of a decision": func(e *testEnv) { e.pod("earlier", "shop", asBoundByBerth) },
		"without it, while the profile ran": func(e *testEnv) {
			e.running = []string{"batch", "shop"}
			e.pod("earlier", "shop", asBound)
			e.check(t.Context())
			e.running = []string{"batch"}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newTestEnv()
			prepare(e)
			e.pod("later", "shop")
			e.clock.Step(ReportAfter)
			e.check(t.Context())
			if len(e.events.notes) != 1 || !strings.Contains(e.events.notes[0], `later NameNotServed: no scheduler has looked at the pod for 1m0s: no SchedulingProfile that runs is called "shop"`) {
				t.Errorf("Events %q, want one about the pod that came after the profile was deleted", e.events.notes)
			}
			if got := counted(t); got["shop"] != 1 {
				t.Errorf("counted %v, want one pod of shop", got)
			}
		})
	}
}

func TestPodsThatAnEarlierProcessHeldAreHeldWhenTheirProfileIsDeleted(t *testing.T) {
	held := func(reason string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason}}
		}
	}
	for name, c := range map[string]struct {
		prepare func(e *testEnv)
		want    []string
	}{
		"the profile was deleted":              {func(e *testEnv) { e.pod("web", "shop", held("ProfileDeleted")) }, []string{"shop"}},
		"the profile was paused, then deleted": {func(e *testEnv) { e.pod("web", "shop", held("ProfilePaused")) }, []string{"shop"}},
		"two pods of one profile": {func(e *testEnv) {
			e.pod("a", "shop", held("ProfileDeleted"))
			e.pod("b", "shop", held("ProfilePaused"))
		}, []string{"shop"}},
		"the profile exists":                  {func(e *testEnv) { e.pod("web", "shop", held("ProfilePaused")); e.profiles = []string{"shop"} }, nil},
		"the profile runs":                    {func(e *testEnv) { e.pod("web", "batch", held("ProfilePaused")) }, nil},
		"another scheduler serves the name":   {func(e *testEnv) { e.pod("web", "default-scheduler", held("ProfileDeleted")) }, nil},
		"another scheduler set the condition": {func(e *testEnv) { e.pod("web", "shop", held("Unschedulable")) }, nil},
		"the pod has a node":                  {func(e *testEnv) { e.pod("web", "shop", held("ProfileDeleted"), asBound) }, nil},
		"the profile cannot be read":          {func(e *testEnv) { e.pod("web", "shop", held("ProfileDeleted")); e.profilesErr = errors.New("no") }, nil},
		"the pod has no condition":            {func(e *testEnv) { e.pod("web", "shop") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv()
			c.prepare(e)
			for range 2 {
				e.check(t.Context())
			}
			if !slices.Equal(e.heldDeleted, c.want) {
				t.Errorf("held the pods of %q, want %q", e.heldDeleted, c.want)
			}
		})
	}
}

// A process that ended after the deletion of a profile may not have written that its pods are
// held.
func TestPodsThatAnEarlierProcessTriedAreHeldWhenTheirProfileIsDeleted(t *testing.T) {
	tried := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	}
	for name, c := range map[string]struct {
		prepare func(e *testEnv)
		want    []string
	}{
		"the profile is remembered":     {func(e *testEnv) { e.pod("web", "shop", tried); e.remembered = []string{"shop"} }, []string{"shop"}},
		"the profile is not remembered": {func(e *testEnv) { e.pod("web", "shop", tried); e.remembered = []string{"other"} }, nil},
		"the profile exists": {func(e *testEnv) {
			e.pod("web", "shop", tried)
			e.remembered, e.profiles = []string{"shop"}, []string{"shop"}
		}, nil},
		"no process tried the pod": {func(e *testEnv) { e.pod("web", "shop"); e.remembered = []string{"shop"} }, nil},
		"the pod has a node":       {func(e *testEnv) { e.pod("web", "shop", tried, asBound); e.remembered = []string{"shop"} }, nil},
		"another scheduler serves the name": {func(e *testEnv) {
			e.pod("web", "default-scheduler", tried)
			e.remembered = []string{"default-scheduler"}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv()
			c.prepare(e)
			e.check(t.Context())
			if !slices.Equal(e.heldDeleted, c.want) {
				t.Errorf("held the pods of %q, want %q", e.heldDeleted, c.want)
			}
		})
	}

	t.Run("the profiles cannot be read at first", func(t *testing.T) {
		e := newTestEnv()
		e.pod("web", "shop", tried)
		e.remembered, e.profilesErr = []string{"shop"}, errors.New("no")
		e.check(t.Context())
		e.profilesErr = nil
		e.check(t.Context())
		if want := []string{"shop"}; !slices.Equal(e.heldDeleted, want) {
			t.Errorf("held the pods of %q, want %q", e.heldDeleted, want)
		}
	})

	t.Run("another scheduler may serve the name later", func(t *testing.T) {
		e := newTestEnv()
		e.remembered = []string{"shop"}
		e.check(t.Context())
		e.pod("web", "shop", tried)
		e.check(t.Context())
		if len(e.heldDeleted) > 0 {
			t.Errorf("held the pods of %q", e.heldDeleted)
		}
	})
}

func TestManyUnservedPodsAreReportedInStepsAndCountedUnderFewNames(t *testing.T) {
	e := newTestEnv()
	for i := range 3 * maxEventsPerCheck {
		e.pod(fmt.Sprintf("web-%02d", i), fmt.Sprint("unserved-", i%30))
	}
	e.clock.Step(ReportAfter)
	for look := 1; look <= 4; look++ {
		e.check(context.Background())
		if want := min(look*maxEventsPerCheck, 3*maxEventsPerCheck); len(e.events.notes) != want {
			t.Fatalf("%d Events after %d checks, want %d", len(e.events.notes), look, want)
		}
	}
	slices.Sort(e.events.notes)
	if notes := slices.Compact(e.events.notes); len(notes) != 3*maxEventsPerCheck {
		t.Errorf("%d pods have an Event, want each", len(notes))
	}
	if n := len(counted(t)); n != maxNames+1 {
		t.Errorf("%d series, want %d", n, maxNames+1)
	}
	if strings.Contains(e.events.notes[0], "did you mean") {
		t.Errorf("%q guesses wildly", e.events.notes[0])
	}
}
