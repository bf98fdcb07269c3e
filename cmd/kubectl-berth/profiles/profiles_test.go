package profiles

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/plugin"
)

// house are three profiles: one that is well, one whose edit was refused, and
// one that nobody has looked at.
func testProfiles() []client.Object {
	batch := plugin.Profile("batch", 6)
	runs := plugin.Revision(batch, 1)
	batch = plugin.Running(batch, runs, 6)
	batch.Status.Programmed.Configs = []v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 4}}
	batch.Status.Queue.Pending, batch.Status.Totals.Bound = 12, 84120
	last := plugin.Ago(3 * time.Second)
	batch.Status.LastDecisionTime = &last
	web := plugin.Profile("web", 3)
	web = plugin.Running(web, plugin.Revision(web, 1), 2)
	return []client.Object{batch, web, plugin.Profile("fresh", 1)}
}

func TestProfiles(t *testing.T) {
	for sentence, c := range map[string]struct {
		objects []client.Object
		args    []string
		fail    func(string, any) error
	}{
		"one is well, one is refused and one is new": {objects: testProfiles()},
		"in wide columns":       {objects: testProfiles(), args: []string{"-o", "wide"}},
		"one alone as YAML":     {objects: testProfiles(), args: []string{"fresh", "-o", "yaml"}},
		"two by name":           {objects: testProfiles(), args: []string{"web", "batch", "-o", "name"}},
		"a misspelled name":     {objects: testProfiles(), args: []string{"bacth"}},
		"a name like no other":  {objects: testProfiles(), args: []string{"kubernetes"}},
		"a format that is none": {objects: testProfiles(), args: []string{"-o", "xml"}},
		"there is none":         {},
		"the CRDs are not installed": {fail: func(string, any) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "berth.dev", Kind: "SchedulingProfile"}, SearchedVersions: []string{"v1alpha1"}}
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, c.objects...)
			stage.Fail = c.fail
			plugin.Golden(t, sentence, stage.Run(New, c.args...), strings.Contains(sentence, "wide"))
		})
	}
}

func TestAWatchPrintsOnlyWhatChanges(t *testing.T) {
	stage := plugin.New(t, testProfiles()...)
	await := stage.Watch(New, "--watch")
	await("fresh")
	edit := func(name string, change func(*v1alpha1.SchedulingProfile)) {
		t.Helper()
		p := &v1alpha1.SchedulingProfile{}
		if err := stage.Client.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		change(p)
		if err := stage.Client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	edit("batch", func(p *v1alpha1.SchedulingProfile) { p.Status.LastDecisionTime = &metav1.Time{Time: plugin.Now} })
	edit("batch", func(p *v1alpha1.SchedulingProfile) { p.Status.Queue.Pending = 7777 })
	await("7777")
	edit("web", func(p *v1alpha1.SchedulingProfile) { p.Spec.State = v1alpha1.StatePaused })
	plugin.Golden(t, "a watch", await("Paused"), false)
}
