package export

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

const testNamespace = "berth-system"

// testEnv is an Exporter and the client of the cluster that it writes to.
type testEnv struct {
	*Exporter
	t      *testing.T
	client *fake.Clientset
	// outdated is the error of the check whether what runs is current.
	outdated error
}

// Sync is Exporter.Sync.
func (o *testEnv) Sync(ctx context.Context, profile, name string, runs *compile.Blueprint) *Outcome {
	return o.Exporter.Sync(ctx, profile, name, runs, func(context.Context) error { return o.outdated })
}

func newTestEnv(t *testing.T, objects ...runtime.Object) *testEnv {
	client := fake.NewClientset(objects...)
	return &testEnv{Exporter: NewExporter(client, testNamespace, plugins.InTree()), t: t, client: client}
}

// newBlueprint compiles a profile.
func newBlueprint(t *testing.T, name string, edits ...func(*v1alpha1.SchedulingProfileSpec)) *compile.Blueprint {
	t.Helper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 6}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	b, rejection := compile.Profile(compile.Input{Profile: p, Registry: plugins.InTree()})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	return b
}

func withTeamSelector(s *v1alpha1.SchedulingProfileSpec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": "a"}}}
}

// storedData returns what the ConfigMaps hold, by name.
func (o *testEnv) storedData() map[string]string {
	o.t.Helper()
	list, err := o.client.CoreV1().ConfigMaps(testNamespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	held := map[string]string{}
	for _, m := range list.Items {
		held[m.Name] = m.Data[Key]
	}
	return held
}

func newConfigMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, Labels: labels}, Data: map[string]string{Key: "mine"}}
}

func TestSyncWritesTheRunningBlueprint(t *testing.T) {
	o := newTestEnv(t)
	got := o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch", func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 30 }))
	if !got.Exported() || !strings.HasPrefix(got.Message, "generation 6 (") || !strings.HasSuffix(got.Message, "is in ConfigMap berth-system/autoscaler, key scheduler-config.yaml") {
		t.Errorf("outcome %+v", got)
	}
	text := o.storedData()["autoscaler"]
	for _, line := range []string{"# What SchedulingProfile batch runs", "kind: KubeSchedulerConfiguration", "  schedulerName: batch", "percentageOfNodesToScore: 30"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in:\n%s", line, text)
		}
	}
	if writes := o.writes(); writes != 1 {
		t.Errorf("%d writes, want one", writes)
	}
	if o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch", func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 30 })); o.writes() != 1 {
		t.Error("an unchanged ConfigMap is written again")
	}
}

// writes counts the requests that change objects.
func (o *testEnv) writes() int {
	n := 0
	for _, action := range o.client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			n++
		}
	}
	return n
}

func TestSyncReportsWhatCannotBeExpressed(t *testing.T) {
	o := newTestEnv(t)
	got := o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch", withTeamSelector))
	if got.Reason != v1alpha1.ReasonNotExpressible || got.Retry || !strings.Contains(got.Message, "; spec.allowedNamespaces: ") {
		t.Errorf("outcome %+v", got)
	}
	if text := o.storedData()["autoscaler"]; !strings.Contains(text, "# spec.allowedNamespaces: ") {
		t.Errorf("the file does not name the setting:\n%s", text)
	}
}

func TestSyncDoesNotTouchConfigMapsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		says   string
	}{
		"a ConfigMap without labels":             {nil, "it is not Berth's"},
		"a ConfigMap that another tool manages":  {map[string]string{labelManagedBy: "helm", v1alpha1.LabelProfile: "batch"}, "it is not Berth's"},
		"the export of another profile":          {labelsFor("other"), "it holds what profile other exports"},
		"a ConfigMap of Berth without a profile": {map[string]string{labelManagedBy: managedBy}, "it is not Berth's"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestEnv(t, newConfigMap("autoscaler", c.labels))
			got := o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch"))
			if got.Reason != v1alpha1.ReasonConfigMapConflict || !strings.Contains(got.Message, c.says) || !got.Retry {
				t.Errorf("outcome %+v", got)
			}
			o.Sync(t.Context(), "batch", "", nil)
			if diff := cmp.Diff(map[string]string{"autoscaler": "mine"}, o.storedData()); diff != "" {
				t.Errorf("it was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncDeletesConfigMapsThatAreNoLongerNamed(t *testing.T) {
	o := newTestEnv(t)
	o.Sync(t.Context(), "batch", "first", newBlueprint(t, "batch"))
	o.Sync(t.Context(), "other", "theirs", newBlueprint(t, "other"))
	o.Sync(t.Context(), "batch", "second", newBlueprint(t, "batch"))
	if _, ok := o.storedData()["first"]; ok {
		t.Error("the ConfigMap that the profile named before still exists")
	}
	if got := o.Sync(t.Context(), "batch", "", newBlueprint(t, "batch")); got != nil {
		t.Errorf("outcome %+v, want none", got)
	}
	if held := o.storedData(); len(held) != 1 || held["theirs"] == "" {
		t.Errorf("stored %v, want the other profile's alone", held)
	}
}

// A new leader whose cache is behind runs an older spec than the one that its predecessor exported.
func TestNothingIsWrittenFromAnOlderSpec(t *testing.T) {
	for name, configMap := range map[string]string{
		"the ConfigMap is not replaced":                           "autoscaler",
		"another ConfigMap is not created, nor the first deleted": "another",
		"the ConfigMap is not deleted":                            "",
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestEnv(t)
			o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch"))
			want := o.storedData()
			o.outdated = errors.New("the cache is behind")
			older := newBlueprint(t, "batch", func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 30 })
			got := o.Sync(t.Context(), "batch", configMap, older)
			if got == nil || got.Reason != v1alpha1.ReasonExportFailed || !got.Retry || !strings.HasSuffix(got.Message, ": the cache is behind") {
				t.Errorf("outcome %+v", got)
			}
			if diff := cmp.Diff(want, o.storedData()); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncReportsFailures(t *testing.T) {
	o := newTestEnv(t)
	if got := o.Sync(t.Context(), "batch", "autoscaler", nil); got.Reason != v1alpha1.ReasonNothingRuns {
		t.Errorf("outcome %+v, want that nothing runs", got)
	}
	o.client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("quota exceeded")
	})
	got := o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch"))
	if got.Reason != v1alpha1.ReasonExportFailed || !got.Retry || !strings.Contains(got.Message, "could not be written: quota exceeded") {
		t.Errorf("outcome %+v", got)
	}
}

func TestAnEditOfAnExportIsReverted(t *testing.T) {
	left := newConfigMap("left", labelsFor("gone")) // of a profile that was deleted while no process was running
	o := newTestEnv(t, left)
	o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch"))
	want := o.storedData()["autoscaler"]
	requeued := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Watch(ctx, func(profile string) { requeued <- profile }) }()
	waitForProfiles(t, requeued, "gone", "batch")
	o.Sync(t.Context(), "gone", "", nil)

	edited := newConfigMap("autoscaler", labelsFor("batch"))
	if _, err := o.client.CoreV1().ConfigMaps(testNamespace).Update(t.Context(), edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForProfiles(t, requeued, "batch")
	o.Sync(t.Context(), "batch", "autoscaler", newBlueprint(t, "batch"))
	if diff := cmp.Diff(map[string]string{"autoscaler": want}, o.storedData()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waitForProfiles waits until each of the profiles was requeued.
func waitForProfiles(t *testing.T, requeued <-chan string, profiles ...string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for len(profiles) > 0 {
		select {
		case name := <-requeued:
			profiles = slices.DeleteFunc(profiles, func(p string) bool { return p == name })
		case <-deadline:
			t.Fatalf("%v are not requeued", profiles)
		}
	}
}
