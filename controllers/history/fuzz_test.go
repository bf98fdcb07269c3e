package history

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// markedRevision returns a ControllerRevision of profile batch with marks: annotations and
// their values, each on a line of its own.
func markedRevision(data []byte, marks string) *appsv1.ControllerRevision {
	entry := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: compile.RevisionName("batch", "9f3c1a2b4d"), Labels: map[string]string{v1alpha1.LabelProfile: "batch"}, Annotations: map[string]string{},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: 3,
	}
	for line := range strings.SplitSeq(marks, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			entry.Annotations["berth.dev/"+name] = value
		}
	}
	return entry
}

// FuzzRevision reads any revision, whose data and annotations users with the right to may
// change. Evidence is within bounds, and a death that is counted never makes it weaker.
func FuzzRevision(f *testing.F) {
	const profile = `{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":"batch"},"spec":{"state":"Active"}}`
	const dead = "on-probation=2026-03-01T11:00:00Z\nprocess=other\nbuild-begun=2026-03-01T11:59:00Z\n"
	f.Add([]byte(profile), "")
	f.Add([]byte(profile), dead+"deaths=2026-03-01T11:58:00Z,2026-03-01T11:59:00Z\nbuild-deaths=2\nplugin-configs=A=b,B=c,,=\ngeneration=7\nprofile-uid=u")
	f.Add([]byte(profile), dead+"build-deaths=9223372036854775807\nrebuilds=9223372036854775807 2026-03-01T12:00:00Z\ngeneration=-1")
	f.Add([]byte(profile), dead+"build-deaths=-5\nrebuilds=-1 yesterday\ndeaths=a,b,c,9999-12-31T23:59:59Z\nserved=x\non-trial=")
	f.Add([]byte(`{"apiVersion":"berth.dev/v1beta1","kind":"SchedulingProfile","metadata":{"name":"other"},"spec":{"pluginConfig":[{}]}}`), "on-probation=")
	f.Add([]byte(profile), dead+"rebuilds=1 9999-12-31T23:59:59Z\ndeaths=9999-12-31T23:59:58Z,9999-12-31T23:59:59Z")
	f.Add([]byte(`[]`), "crash-stack=\u001b[31m")
	f.Fuzz(func(t *testing.T, data []byte, marks string) {
		if len(data)+len(marks) > 16<<10 {
			return
		}
		clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		h := New(Options{Process: "one", Clock: clock})
		entry := markedRevision(data, marks)
		l := h.newProfileHistory(h.memory, "batch", []appsv1.ControllerRevision{*entry.DeepCopy()}, NotStored{})
		r, ours := h.revisionFrom(entry)
		if ours != (len(l.Revisions) == 1) {
			t.Fatalf("a revision of Berth: %t, and the history has %d", ours, len(l.Revisions))
		}
		if !ours {
			return
		}
		if r.Hash != "9f3c1a2b4d" || r.Profile.Name != "batch" || r.Number != 3 {
			t.Fatalf("hash %q, profile %q, number %d", r.Hash, r.Profile.Name, r.Number)
		}
		checkEvidence(t, r.Evidence, clock.Now())
		h.CountDeaths(l)
		if len(l.Revisions) != 1 {
			t.Fatalf("%d revisions after counting deaths", len(l.Revisions))
		}
		after := l.Revisions[0].Evidence
		checkEvidence(t, after, clock.Now())
		if after.BuildDeaths < r.Evidence.BuildDeaths || after.CrashStack != r.Evidence.CrashStack {
			t.Fatalf("after a death %+v, before %+v", after, r.Evidence)
		}
		by := entry.Annotations[v1alpha1.AnnotationProcess]
		if died := onProbation(entry) && by != "" && by != "one"; died != (len(l.modified) > 0) || died && after.Deaths == 0 {
			t.Fatalf("process %q died: %t; %d entries were changed, %+v", by, died, len(l.modified), after)
		}
		for _, at := range deathTimes(l.entries[r.Name]) {
			if died := len(l.modified) > 0; died && clock.Since(at).Abs() > h.options.Probation {
				t.Fatalf("a death at %v counts at %v", at, clock.Now())
			}
		}
		checkRebuilt(t, h, l, r)
	})
}

// checkEvidence checks the bounds of evidence.
func checkEvidence(t *testing.T, e Evidence, now time.Time) {
	t.Helper()
	if e.BuildDeaths < 0 || e.Deaths < 0 {
		t.Fatalf("%d build deaths, %d deaths", e.BuildDeaths, e.Deaths)
	}
	if e.NotBefore.After(now.Add(maxRebuildDelay)) {
		t.Fatalf("a blamed revision is built again at %v, want at most %v from now", e.NotBefore, maxRebuildDelay)
	}
}

// checkRebuilt checks that a blamed revision that is built again waits before the next time,
// and keeps its arguments' PluginConfigs.
func checkRebuilt(t *testing.T, h *History, l *ProfileHistory, r Revision) {
	t.Helper()
	entry := h.newEntry(l, RevisionSpec{Profile: "batch", Hash: r.Hash, Data: []byte("{}"), Configs: r.Configs, Blamed: true})
	if got := configsFromAnnotation(entry); !cmp.Equal(r.Configs, got) && !separators(r.Configs) {
		t.Fatalf("PluginConfigs %v become %v", r.Configs, got)
	}
	if !onProbation(entry) {
		return
	}
	now := h.options.Clock.Now()
	if e := h.evidenceOf(entry); e.NotBefore.Before(now) || e.NotBefore.After(now.Add(maxRebuildDelay)) {
		t.Fatalf("a blamed revision that is built now may be built again at %v; rebuilds: %q", e.NotBefore, entry.Annotations[v1alpha1.AnnotationRebuilds])
	}
}

// separators reports whether a name has a character that separates names.
func separators(configs map[string]string) bool {
	for plugin, config := range configs {
		if strings.ContainsAny(plugin+config, "=,") {
			return true
		}
	}
	return false
}
