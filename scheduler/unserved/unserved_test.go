package unserved

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/compile"
)

type recorder struct{ notes []string }

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.notes = append(r.notes, regarding.(*v1.Pod).Name+" "+reason+": "+fmt.Sprintf(note, args...))
}

// scene is a Watch over a few pods; "batch" runs.
type testEnv struct {
	*Reporter
	store  cache.Indexer
	events *recorder
	clock  *testclock.FakeClock
	// exist are the profiles that exist; unknown is why that cannot be known.
	profiles    []string
	profilesErr error
	heldDeleted []string
}

func newTestEnv() *testEnv {
	s := &testEnv{
		store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), events: &recorder{},
		clock: testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	s.Reporter = New(Options{
		Pods: corelisters.NewPodLister(s.store), Synced: func() bool { return true }, Served: func() []string { return []string{"batch"} },
		OtherSchedulers: []string{"default-scheduler"}, ClosestName: compile.Suggest, Recorder: s.events, Clock: s.clock, Log: logr.Discard(),
		HoldReasons: []string{"ProfileDeleted", "ProfilePaused"},
		ProfileExists: func(_ context.Context, name string) (bool, error) {
			return slices.Contains(s.profiles, name), s.profilesErr
		},
		HoldDeleted: func(name string) { s.heldDeleted = append(s.heldDeleted, name) },
	})
	return s
}

func (s *testEnv) pod(name, scheduler string, edits ...func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.clock.Now()),
	}}
	pod.Spec.SchedulerName = scheduler
	for _, edit := range edits {
		edit(pod)
	}
	_ = s.store.Add(pod)
}

// counted is the gauge's value by name.
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

func TestAnUnservedPodGetsOneEventAfterAMinute(t *testing.T) {
	s := newTestEnv()
	s.pod("web", "bacth")
	s.clock.Step(ReportAfter - time.Second)
	s.check(context.Background())
	if len(s.events.notes) > 0 {
		t.Errorf("told %q too early", s.events.notes)
	}
	s.clock.Step(time.Second)
	s.check(context.Background())
	s.check(context.Background())
	want := `web NameNotServed: no scheduler has looked at the pod for 1m0s: no SchedulingProfile that runs is called "bacth", did you mean "batch"?; ` +
		`a name that another scheduler serves belongs in the manager's --other-schedulers`
	if len(s.events.notes) != 1 || s.events.notes[0] != want {
		t.Errorf("told %q, want once %q", s.events.notes, want)
	}
	if got := counted(t); len(got) != 1 || got["bacth"] != 1 {
		t.Errorf("counted %v, want one pod of bacth", got)
	}
	s.pod("web", "bacth", asBound)
	s.check(context.Background())
	if left := counted(t); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestPodsThatAreNotReportedAsUnserved(t *testing.T) {
	for sentence, prepare := range map[string]func(s *testEnv){
		"a pod of a profile that runs":               func(s *testEnv) { s.pod("web", "batch") },
		"a pod of a scheduler that is known":         func(s *testEnv) { s.pod("web", "default-scheduler") },
		"a pod of a scheduler that has bound others": func(s *testEnv) { s.pod("web", "volcano"); s.pod("other", "volcano", asBound) },
		"a pod that some scheduler told why it waits": func(s *testEnv) {
			s.pod("web", "volcano", func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
			})
		},
		"a pod that is being deleted": func(s *testEnv) {
			s.pod("web", "volcano", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.clock.Now()} })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newTestEnv()
			prepare(s)
			s.clock.Step(ReportAfter)
			s.check(context.Background())
			if len(s.events.notes) > 0 || len(counted(t)) > 0 {
				t.Errorf("told %q", s.events.notes)
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
	for sentence, c := range map[string]struct {
		prepare func(s *testEnv)
		want    []string
	}{
		"the profile was deleted":          {func(s *testEnv) { s.pod("web", "shop", held("ProfileDeleted")) }, []string{"shop"}},
		"it was paused, and deleted since": {func(s *testEnv) { s.pod("web", "shop", held("ProfilePaused")) }, []string{"shop"}},
		"two pods of one profile": {func(s *testEnv) {
			s.pod("a", "shop", held("ProfileDeleted"))
			s.pod("b", "shop", held("ProfilePaused"))
		}, []string{"shop"}},
		"the profile exists":                      {func(s *testEnv) { s.pod("web", "shop", held("ProfilePaused")); s.profiles = []string{"shop"} }, nil},
		"the profile runs":                        {func(s *testEnv) { s.pod("web", "batch", held("ProfilePaused")) }, nil},
		"another scheduler serves the name":       {func(s *testEnv) { s.pod("web", "default-scheduler", held("ProfileDeleted")) }, nil},
		"another scheduler has told the pod":      {func(s *testEnv) { s.pod("web", "shop", held("Unschedulable")) }, nil},
		"the pod has a node":                      {func(s *testEnv) { s.pod("web", "shop", held("ProfileDeleted"), asBound) }, nil},
		"it cannot be known whether there is one": {func(s *testEnv) { s.pod("web", "shop", held("ProfileDeleted")); s.profilesErr = errors.New("no") }, nil},
		"nobody has told the pod anything":        {func(s *testEnv) { s.pod("web", "shop") }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newTestEnv()
			c.prepare(s)
			for range 2 {
				s.check(t.Context())
			}
			if !slices.Equal(s.heldDeleted, c.want) {
				t.Errorf("held the pods of %q, want %q", s.heldDeleted, c.want)
			}
		})
	}
}

func TestManyUnservedPodsAreReportedInStepsAndCountedUnderFewNames(t *testing.T) {
	s := newTestEnv()
	for i := range 3 * maxEventsPerCheck {
		s.pod(fmt.Sprintf("web-%02d", i), fmt.Sprint("nobody-", i%30))
	}
	s.clock.Step(ReportAfter)
	for look := 1; look <= 4; look++ {
		s.check(context.Background())
		if want := min(look*maxEventsPerCheck, 3*maxEventsPerCheck); len(s.events.notes) != want {
			t.Fatalf("%d were told after %d looks, want %d", len(s.events.notes), look, want)
		}
	}
	slices.Sort(s.events.notes)
	if told := slices.Compact(s.events.notes); len(told) != 3*maxEventsPerCheck {
		t.Errorf("%d pods were told, want each", len(told))
	}
	if n := len(counted(t)); n != maxNames+1 {
		t.Errorf("%d series, want %d", n, maxNames+1)
	}
	if strings.Contains(s.events.notes[0], "did you mean") {
		t.Errorf("%q guesses wildly", s.events.notes[0])
	}
}
