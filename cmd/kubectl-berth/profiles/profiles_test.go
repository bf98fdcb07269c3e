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
	"github.com/berthdev/berth/test/support/kubectltest"
)

// testProfiles are a profile that is Ready, one whose edit was rejected, and one that Berth
// has not observed.
func testProfiles() []client.Object {
	batch := kubectltest.Profile("batch", 6)
	running := kubectltest.Revision(batch, 1)
	batch = kubectltest.Running(batch, running, 6)
	batch.Status.Programmed.Configs = []v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 4}}
	batch.Status.Queue.Pending, batch.Status.Totals.Bound = 12, 84120
	last := kubectltest.Ago(3 * time.Second)
	batch.Status.LastDecisionTime = &last
	web := kubectltest.Profile("web", 3)
	web = kubectltest.Running(web, kubectltest.Revision(web, 1), 2)
	return []client.Object{batch, web, kubectltest.Profile("fresh", 1)}
}

func degradedProfile() *v1alpha1.SchedulingProfile {
	p := kubectltest.Profile("batch", 6)
	p = kubectltest.Running(p, kubectltest.Revision(p, 1), 6)
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: string(v1alpha1.ConditionDegraded), Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonEventsMissed), ObservedGeneration: 6,
		Message: "events of example.com/quotas are not received, so pods that Quota rejected may wait longer: the resource is not served",
	})
	return p
}

func TestProfiles(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		args    []string
		fail    func(string, any) error
	}{
		"one Ready, one rejected and one new": {objects: testProfiles()},
		"in wide columns":                     {objects: testProfiles(), args: []string{"-o", "wide"}},
		"one alone as YAML":                   {objects: testProfiles(), args: []string{"fresh", "-o", "yaml"}},
		"one that is Degraded":                {objects: []client.Object{degradedProfile()}},
		"two by name":                         {objects: testProfiles(), args: []string{"web", "batch", "-o", "name"}},
		"a field by its JSONPath":             {objects: testProfiles(), args: []string{"web", "-o", "jsonpath={.metadata.name}"}},
		"a JSONPath that is not closed":       {objects: testProfiles(), args: []string{"web", "-o", "jsonpath={.metadata"}},
		"a misspelled name":                   {objects: testProfiles(), args: []string{"bacth"}},
		"a name without a similar one":        {objects: testProfiles(), args: []string{"kubernetes"}},
		"an unsupported format":               {objects: testProfiles(), args: []string{"-o", "xml"}},
		"no profiles":                         {},
		"the CRDs are not installed": {fail: func(string, any) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "berth.dev", Kind: "SchedulingProfile"}, SearchedVersions: []string{"v1alpha1"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.objects...)
			env.Fail = c.fail
			kubectltest.Golden(t, name, env.Run(New, c.args...), strings.Contains(name, "wide"))
		})
	}
}

func TestAWatchPrintsOnlyWhatChanges(t *testing.T) {
	env := kubectltest.New(t, testProfiles()...)
	await := env.Watch(New, "--watch")
	await("fresh")
	edit := func(name string, change func(*v1alpha1.SchedulingProfile)) {
		t.Helper()
		p := &v1alpha1.SchedulingProfile{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		change(p)
		if err := env.Client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	edit("batch", func(p *v1alpha1.SchedulingProfile) { p.Status.LastDecisionTime = &metav1.Time{Time: kubectltest.Now} })
	edit("batch", func(p *v1alpha1.SchedulingProfile) { p.Status.Queue.Pending = 7777 })
	await("7777")
	edit("web", func(p *v1alpha1.SchedulingProfile) { p.Spec.State = v1alpha1.StatePaused })
	kubectltest.Golden(t, "a watch", await("Paused"), false)
}
