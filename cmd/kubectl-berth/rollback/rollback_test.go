package rollback

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/plugin"
)

// history is batch as three generations of it ran, the last of them now; the
// second was named by a PluginConfig, and processes died on the first.
func history() (profiles []*v1alpha1.SchedulingProfile, revisions []*appsv1.ControllerRevision, config *v1alpha1.PluginConfig) {
	config = plugin.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"MostAllocated"}}`)
	profiles = []*v1alpha1.SchedulingProfile{
		plugin.Profile("batch", 1, plugin.Weighted("ImageLocality", 9)),
		plugin.Profile("batch", 2, plugin.Weighted("TaintToleration", 5), plugin.From("NodeResourcesFit", "binpack")),
		plugin.Profile("batch", 3, plugin.Weighted("TaintToleration", 7), plugin.From("NodeResourcesFit", "binpack")),
	}
	for i, p := range profiles {
		revisions = append(revisions, plugin.Revision(p, int64(i+1), config))
	}
	revisions[0].Annotations[v1alpha1.AnnotationProbation] = "2026-03-01T00:00:00Z"
	revisions[0].Annotations[v1alpha1.AnnotationBuildDeaths] = "2"
	return profiles, revisions, config
}

func world(there *v1alpha1.SchedulingProfile) []client.Object {
	_, revisions, config := history()
	objects := []client.Object{config, revisions[0], revisions[1], revisions[2]}
	if there != nil {
		objects = append(objects, there)
	}
	return objects
}

// wellRunning is batch with its third generation at work, and brokenBy an edit
// that was refused.
func wellRunning() *v1alpha1.SchedulingProfile {
	profiles, revisions, _ := history()
	return plugin.Running(profiles[2], revisions[2], 3)
}

func brokenByAnEdit() *v1alpha1.SchedulingProfile {
	_, revisions, _ := history()
	return plugin.Running(plugin.Profile("batch", 4, plugin.Weighted("NodeResourceFit", 7)), revisions[2], 3)
}

func TestRollback(t *testing.T) {
	for sentence, c := range map[string]struct {
		objects []client.Object
		args    []string
	}{
		"the revisions":                                {world(wellRunning()), []string{"batch", "--list"}},
		"the revisions of a deleted profile":           {world(nil), []string{"batch", "--list"}},
		"back to what ran before":                      {world(wellRunning()), []string{"batch"}},
		"back to what runs, after a refused edit":      {world(brokenByAnEdit()), []string{"batch"}},
		"a dry run":                                    {world(wellRunning()), []string{"batch", "--dry-run"}},
		"back to one by number that processes died on": {world(wellRunning()), []string{"batch", "--to", "1"}},
		"a deleted profile comes back":                 {world(nil), []string{"batch"}},
		"a revision that there is not":                 {world(wellRunning()), []string{"batch", "--to", "7"}},
		"a name without a profile or revision":         {world(wellRunning()), []string{"bacth"}},
		"a profile without a revision":                 {[]client.Object{plugin.Profile("batch", 1)}, []string{"batch"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			plugin.Golden(t, sentence, plugin.New(t, c.objects...).Run(New, c.args...), strings.HasPrefix(sentence, "a revision that"))
		})
	}
}

func TestARollbackWritesTheRevisionAndADryRunDoesNot(t *testing.T) {
	stage := plugin.New(t, world(wellRunning())...)
	read := func() *v1alpha1.SchedulingProfile {
		t.Helper()
		p, err := stage.Profile(t.Context(), "batch")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stage.Run(New, "batch", "--dry-run")
	if p := read(); *p.Spec.Plugins.Score.Enabled[0].Weight != 7 || p.Annotations != nil {
		t.Errorf("a dry run changed the profile: %+v", p)
	}
	stage.Run(New, "batch")
	p := read()
	if *p.Spec.Plugins.Score.Enabled[0].Weight != 5 || p.Spec.PluginConfig[0].Args == nil || p.Spec.PluginConfig[0].ConfigRef != nil {
		t.Errorf("it is not the second revision: %+v", p.Spec)
	}
	if p.Annotations[corev1.LastAppliedConfigAnnotation] == "" {
		t.Error("the next kubectl apply would not know what was applied")
	}
	if again := stage.Run(New, "batch", "--to", "2"); !strings.Contains(again, "nothing is changed") {
		t.Error(again)
	}
}
