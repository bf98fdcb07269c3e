package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	v1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/api/v1alpha1"
)

// testHistory is a History and the client of its store.
type testHistory struct {
	*History
	t      *testing.T
	client *fake.Clientset
	clock  *testclock.FakeClock
}

func newTestHistory(t *testing.T) *testHistory {
	a := &testHistory{t: t, client: fake.NewClientset(), clock: testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	a.client.PrependReactor("update", "controllerrevisions", func(action k8stesting.Action) (bool, runtime.Object, error) {
		update := action.(k8stesting.UpdateAction).GetObject().(*appsv1.ControllerRevision)
		stored, err := a.client.Tracker().Get(action.GetResource(), action.GetNamespace(), update.Name)
		if err == nil && string(stored.(*appsv1.ControllerRevision).Data.Raw) != string(update.Data.Raw) {
			err = errors.New("data: field is immutable") // the API server's error
		}
		return err != nil, nil, err
	})
	a.History = New(Options{Revisions: a.client.AppsV1().ControllerRevisions("berth-system"), Process: "one", Clock: a.clock})
	return a
}

// run begins a revision of a profile whose spec.state is data, lets it run for d, and
// updates the history.
func (a *testHistory) run(profile, hash, data string, d time.Duration) {
	a.t.Helper()
	l, err := a.Read(a.t.Context(), profile)
	if err != nil {
		a.t.Fatal(err)
	}
	whole := fmt.Sprintf(`{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":%q},"spec":{"state":%q}}`, profile, data)
	a.Begin(a.t.Context(), l, RevisionSpec{Profile: profile, UID: "1", Hash: hash, Generation: 1, Data: []byte(whole)})
	since := a.clock.Now()
	a.clock.Step(d)
	if _, err := a.Update(a.t.Context(), l, hash, since); err != nil {
		a.t.Fatal(err)
	}
}

// names returns the names of the stored revisions, oldest first.
func (a *testHistory) names() []string {
	a.t.Helper()
	list, err := a.client.AppsV1().ControllerRevisions("berth-system").List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(x, y appsv1.ControllerRevision) int { return int(x.Revision - y.Revision) })
	var names []string
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	return names
}

func (a *testHistory) wantRevisions(names ...string) {
	a.t.Helper()
	if diff := cmp.Diff(names, a.names()); diff != "" {
		a.t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestTenRevisionsAreKeptIncludingTheNewestProvedOne(t *testing.T) {
	a := newTestHistory(t)
	a.run("p", "x0", "", Probation)
	a.run("p", "x1", "", Probation)
	want := []string{"p-x1"}
	for i := 2; i < 20; i++ {
		a.run("p", fmt.Sprint("x", i), "", time.Second)
	}
	for i := 11; i < 20; i++ {
		want = append(want, fmt.Sprint("p-x", i))
	}
	a.wantRevisions(want...)
}

// Users with the right to may create a revision with any number, or change one.
func TestARevisionWithTheLargestNumberDoesNotEndTheCounting(t *testing.T) {
	a := newTestHistory(t)
	a.run("p", "x0", "", Probation)
	stored, err := a.client.AppsV1().ControllerRevisions("berth-system").Get(t.Context(), "p-x0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Revision = math.MaxInt64
	if _, err := a.client.AppsV1().ControllerRevisions("berth-system").Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"x1", "x2", "x0"} {
		a.run("p", hash, "", Probation)
		l, err := a.Read(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		newest := l.Revisions[0]
		for _, r := range l.Revisions {
			if r.Number > newest.Number {
				newest = r
			}
		}
		if newest.Hash != hash || l.entries[newest.Name].Revision <= 0 {
			t.Errorf("the newest revision is %s with number %d, want %s, which ran last", newest.Hash, l.entries[newest.Name].Revision, hash)
		}
	}
	a.wantRevisions("p-x1", "p-x2", "p-x0")
}

func TestTenRevisionsAreKeptInMemoryWhereTheyCannotBeStored(t *testing.T) {
	a := newTestHistory(t)
	a.client.PrependReactor("create", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "", errors.New("exceeded quota"))
	})
	for i := range 50 {
		a.run("p", fmt.Sprint("x", i), "", time.Second)
	}
	if kept := len(a.memory.entries); kept != MaxRevisions {
		t.Errorf("%d revisions are kept, want %d", kept, MaxRevisions)
	}
}

func TestRevisionsOutliveTheirProfileByADay(t *testing.T) {
	a := newTestHistory(t)
	a.run("p", "x", "", Probation)
	a.run("q", "y", "", Probation)
	exists := map[string]bool{"q": true}
	sweep := func() {
		t.Helper()
		if err := a.PruneDeleted(t.Context(), func(name string) bool { return exists[name] }); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	a.clock.Step(DeletedProfileRetention - time.Second)
	sweep()
	a.wantRevisions("p-x", "q-y")
	exists["p"] = true // it is created again
	sweep()
	exists["p"] = false
	a.clock.Step(time.Hour)
	sweep()
	a.wantRevisions("p-x", "q-y")
	a.clock.Step(DeletedProfileRetention)
	sweep()
	a.wantRevisions("q-y")
}

// The API server rejects a change of a revision's data, which includes what is not part
// of the hash, such as the state.
func TestAnotherSpecWithTheSameHashReplacesTheRevision(t *testing.T) {
	a := newTestHistory(t)
	a.run("p", "x", "Paused", Probation)
	a.run("p", "x", "Active", time.Second)
	l, err := a.Read(t.Context(), "p")
	if err != nil || len(l.Revisions) != 1 {
		t.Fatalf("history %+v, %v", l, err)
	}
	if r := l.Revisions[0]; r.Profile.Spec.State != "Active" || r.Probation {
		t.Errorf("state %s, on probation %t; want the new data, still proved", r.Profile.Spec.State, r.Probation)
	}
}

func TestControllerRevisionsOfOthersAreNotTouched(t *testing.T) {
	a := newTestHistory(t)
	other := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "berth-system", Labels: map[string]string{"app": "web"}}}
	if _, err := a.client.AppsV1().ControllerRevisions("berth-system").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.PruneDeleted(t.Context(), func(string) bool { return false }); err != nil {
			t.Fatal(err)
		}
		a.clock.Step(2 * DeletedProfileRetention)
	}
	a.wantRevisions("web-1")
}

func TestARevisionRecordsThePluginConfigsOfItsArguments(t *testing.T) {
	a := newTestHistory(t)
	begin := func(configs map[string]string) (annotation string, read map[string]string) {
		t.Helper()
		l, err := a.Read(t.Context(), "batch")
		if err != nil {
			t.Fatal(err)
		}
		a.Begin(t.Context(), l, RevisionSpec{
			Profile: "batch", UID: "1", Hash: "h", Generation: 1, Data: []byte(`{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":"batch"}}`), Configs: configs,
		})
		if l, err = a.Read(t.Context(), "batch"); err != nil {
			t.Fatal(err)
		}
		return l.entries["batch-h"].Annotations[v1alpha1.AnnotationPluginConfigs], l.Revisions[0].Configs
	}
	configs := map[string]string{"NodeResourcesFit": "binpack", "InterPodAffinity": "near"}
	annotation, read := begin(configs)
	if want := "InterPodAffinity=near,NodeResourcesFit=binpack"; annotation != want {
		t.Errorf("annotation %q, want %q", annotation, want)
	}
	if diff := cmp.Diff(configs, read); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
	if annotation, _ := begin(nil); annotation != "" {
		t.Errorf("annotation %q of the same spec with inline arguments, want none", annotation)
	}
}

// lostRevisions is a client of one revision whose requests with the verb lost get no answer.
type lostRevisions struct {
	v1.ControllerRevisionInterface
	lost  string
	entry appsv1.ControllerRevision
}

func (l lostRevisions) send(ctx context.Context, verb string) error {
	if verb == l.lost {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l lostRevisions) List(ctx context.Context, _ metav1.ListOptions) (*appsv1.ControllerRevisionList, error) {
	return &appsv1.ControllerRevisionList{Items: []appsv1.ControllerRevision{l.entry}}, l.send(ctx, "list")
}

func (l lostRevisions) Update(ctx context.Context, r *appsv1.ControllerRevision, _ metav1.UpdateOptions) (*appsv1.ControllerRevision, error) {
	return r, l.send(ctx, "update")
}

func (l lostRevisions) Delete(ctx context.Context, _ string, _ metav1.DeleteOptions) error {
	return l.send(ctx, "delete")
}

func TestARequestWithoutAnAnswerDoesNotStopThePruning(t *testing.T) {
	deletedLongAgo := map[string]string{v1alpha1.AnnotationProfileGone: "1999-01-01T00:00:00Z"}
	for lost, annotations := range map[string]map[string]string{"list": nil, "update": nil, "delete": deletedLongAgo} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of virtual time
				defer cancel()
				entry := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "p-x", Annotations: annotations}}
				h := New(Options{Revisions: lostRevisions{lost: lost, entry: entry}, Process: "one", Clock: clock.RealClock{}})
				err := h.PruneDeleted(ctx, func(string) bool { return false })
				if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					t.Errorf("pruning ended with %v, and its caller with %v: want the request alone to end", err, ctx.Err())
				}
			})
		})
	}
}
