package rollback

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// testRevisions are three generations of batch that ran, the last of them now. The second
// one has a PluginConfig, and processes ended while building the first.
func testRevisions() (profiles []*v1alpha1.SchedulingProfile, revisions []*appsv1.ControllerRevision, config *v1alpha1.PluginConfig) {
	config = kubectltest.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"MostAllocated"}}`)
	profiles = []*v1alpha1.SchedulingProfile{
		kubectltest.Profile("batch", 1, kubectltest.WithWeight("ImageLocality", 9)),
		kubectltest.Profile("batch", 2, kubectltest.WithWeight("TaintToleration", 5), kubectltest.WithConfigRef("NodeResourcesFit", "binpack")),
		kubectltest.Profile("batch", 3, kubectltest.WithWeight("TaintToleration", 7), kubectltest.WithConfigRef("NodeResourcesFit", "binpack")),
	}
	for i, p := range profiles {
		revisions = append(revisions, kubectltest.Revision(p, int64(i+1), config))
	}
	revisions[0].Annotations[v1alpha1.AnnotationProbation] = "2026-03-01T00:00:00Z"
	revisions[0].Annotations[v1alpha1.AnnotationBuildDeaths] = "2"
	return profiles, revisions, config
}

func testObjects(there *v1alpha1.SchedulingProfile) []client.Object {
	_, revisions, config := testRevisions()
	objects := []client.Object{config, revisions[0], revisions[1], revisions[2]}
	if there != nil {
		objects = append(objects, there)
	}
	return objects
}

// runningProfile is batch with its third generation running, and profileWithRejectedEdit the
// same after an edit that was rejected.
func runningProfile() *v1alpha1.SchedulingProfile {
	profiles, revisions, _ := testRevisions()
	return kubectltest.Running(profiles[2], revisions[2], 3)
}

func profileWithRejectedEdit() *v1alpha1.SchedulingProfile {
	_, revisions, _ := testRevisions()
	return kubectltest.Running(kubectltest.Profile("batch", 4, kubectltest.WithWeight("NodeResourceFit", 7)), revisions[2], 3)
}

// withShortRevision returns the objects where the second revision ran for seconds, as
// between two related edits.
func withShortRevision(marks map[string]string) []client.Object {
	objects := testObjects(runningProfile())
	for mark, value := range marks {
		objects[2].GetAnnotations()[mark] = value
	}
	delete(objects[1].GetAnnotations(), v1alpha1.AnnotationProbation)
	delete(objects[1].GetAnnotations(), v1alpha1.AnnotationBuildDeaths)
	return objects
}

// withRunningOnProbation returns the objects where the running revision has not served yet.
func withRunningOnProbation(objects []client.Object) []client.Object {
	objects[3].GetAnnotations()[v1alpha1.AnnotationProbation] = probationSince
	return objects
}

// withoutObjects removes some of the objects.
func withoutObjects(objects []client.Object, some ...int) (rest []client.Object) {
	for i, object := range objects {
		if !slices.Contains(some, i) {
			rest = append(rest, object)
		}
	}
	return rest
}

// withEditedConfig returns the objects after an edit of the PluginConfig, and of the profile
// by edit.
func withEditedConfig(edit func(*v1alpha1.SchedulingProfile)) []client.Object {
	p := runningProfile()
	edit(p)
	objects := testObjects(p)
	objects[0] = kubectltest.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"LeastAllocated"}}`)
	return objects
}

// withReferenceRemoved returns the objects where the third generation has its arguments
// inline, and the second revision has the PluginConfig that gave them.
func withReferenceRemoved() []client.Object {
	p := runningProfile()
	p.Spec.PluginConfig[0] = v1alpha1.PluginArguments{Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: []byte(`{"scoringStrategy":{"type":"LeastAllocated"}}`)}}
	objects := testObjects(p)
	objects[2].GetAnnotations()[v1alpha1.AnnotationPluginConfigs] = "NodeResourcesFit=binpack"
	return objects
}

const probationSince = "2026-03-01T11:00:00Z"

func TestRollback(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		args    []string
	}{
		"the revisions":                                                 {testObjects(runningProfile()), []string{"batch", "--list"}},
		"the revisions as JSON":                                         {withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince, v1alpha1.AnnotationPluginConfigs: "NodeResourcesFit=binpack"}), []string{"batch", "--list", "-o", "json"}},
		"a format without a list":                                       {testObjects(runningProfile()), []string{"batch", "-o", "json"}},
		"the revisions of a deleted profile":                            {testObjects(nil), []string{"batch", "--list"}},
		"the revision before":                                           {testObjects(runningProfile()), []string{"batch"}},
		"the running revision after a rejected edit":                    {testObjects(profileWithRejectedEdit()), []string{"batch"}},
		"a dry run":                                                     {testObjects(runningProfile()), []string{"batch", "--dry-run"}},
		"a revision by number that processes ended on":                  {testObjects(runningProfile()), []string{"batch", "--to", "1"}},
		"a deleted profile":                                             {testObjects(nil), []string{"batch"}},
		"a revision that does not exist":                                {testObjects(runningProfile()), []string{"batch", "--to", "7"}},
		"no profile and no revision":                                    {testObjects(runningProfile()), []string{"bacth"}},
		"past a revision that ran for seconds":                          {withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince}), []string{"batch", "--dry-run"}},
		"past a revision that was only on trial":                        {withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince, v1alpha1.AnnotationOnTrial: "true"}), []string{"batch", "--dry-run"}},
		"to one on probation that served for a minute":                  {withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince, v1alpha1.AnnotationServed: probationSince}), []string{"batch", "--dry-run"}},
		"the only revision is running":                                  {withoutObjects(testObjects(runningProfile()), 1, 2), []string{"batch"}},
		"none before it served for a minute":                            {withoutObjects(withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince}), 1), []string{"batch", "--dry-run"}},
		"the running revision is on probation and an edit was rejected": {withRunningOnProbation(testObjects(profileWithRejectedEdit())), []string{"batch", "--dry-run"}},
		"a process ended while building the revision before":            {withoutObjects(withShortRevision(map[string]string{v1alpha1.AnnotationProbation: probationSince, v1alpha1.AnnotationBuildBegun: probationSince}), 1), []string{"batch", "--dry-run"}},
		"none before it ran":                                            {withoutObjects(testObjects(runningProfile()), 2), []string{"batch"}},
		"the PluginConfig has other arguments":                          {withEditedConfig(func(*v1alpha1.SchedulingProfile) {}), []string{"batch", "--dry-run"}},
		"the PluginConfig was deleted":                                  {withoutObjects(testObjects(runningProfile()), 0), []string{"batch", "--dry-run"}},
		"a paused profile stays paused": {withEditedConfig(func(p *v1alpha1.SchedulingProfile) {
			p.Spec.State, p.Spec.Activation = v1alpha1.StatePaused, v1alpha1.ActivationManual
		}), []string{"batch", "--dry-run"}},
		"a reference that an edit removed": {withReferenceRemoved(), []string{"batch", "--dry-run"}},
		"a profile without a revision":     {[]client.Object{kubectltest.Profile("batch", 1)}, []string{"batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			kubectltest.Golden(t, name, kubectltest.New(t, c.objects...).Run(New, c.args...), strings.HasPrefix(name, "a revision that") || strings.HasPrefix(name, "none before"))
		})
	}
}

func TestARollbackWritesTheRevisionAndADryRunDoesNot(t *testing.T) {
	env := kubectltest.New(t, testObjects(runningProfile())...)
	read := func() *v1alpha1.SchedulingProfile {
		t.Helper()
		p, err := env.Profile(t.Context(), "batch")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	env.Run(New, "batch", "--dry-run")
	if p := read(); *p.Spec.Plugins.Score.Enabled[0].Weight != 7 || p.Annotations != nil {
		t.Errorf("a dry run changed the profile: %+v", p)
	}
	env.Run(New, "batch")
	p := read()
	if *p.Spec.Plugins.Score.Enabled[0].Weight != 5 || p.Spec.PluginConfig[0].ConfigRef == nil {
		t.Errorf("the spec is not that of the second revision: %+v", p.Spec)
	}
	if p.Annotations[corev1.LastAppliedConfigAnnotation] == "" {
		t.Error("the annotation of kubectl apply is missing")
	}
	if again := env.Run(New, "batch", "--to", "2"); !strings.Contains(again, "nothing to change") {
		t.Error(again)
	}
}

func TestAProfileThatChangesMeanwhileIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(*testing.T, client.Client, *v1alpha1.SchedulingProfile){
		"edited": func(t *testing.T, c client.Client, p *v1alpha1.SchedulingProfile) {
			p.Spec.PercentageOfNodesToScore = 50
			if err := c.Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		},
		"deleted and created again": func(t *testing.T, c client.Client, p *v1alpha1.SchedulingProfile) {
			if err := c.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			p.UID, p.ResourceVersion = "another", ""
			p.Spec.PercentageOfNodesToScore = 50
			if err := c.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		},
		"deleted": func(t *testing.T, c client.Client, p *v1alpha1.SchedulingProfile) {
			if err := c.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, testObjects(runningProfile())...)
			var changed *v1alpha1.SchedulingProfile
			env.Fail = func(verb string, object any) error {
				if verb != "patch" {
					return nil
				}
				env.Fail = nil
				p, err := env.Profile(t.Context(), "batch")
				if err != nil {
					t.Fatal(err)
				}
				change(t, env.Client, p)
				if name != "deleted" {
					changed = p
				}
				return nil
			}
			printed := env.Run(New, "batch")
			if text := strings.Join(strings.Fields(printed), " "); !strings.Contains(text, "was changed meanwhile, and nothing was written: run the command again") || !strings.HasSuffix(printed, "exit 2\n") {
				t.Error(printed)
			}
			if changed == nil {
				return
			}
			p, err := env.Profile(t.Context(), "batch")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(changed.Spec, p.Spec); diff != "" {
				t.Errorf("the spec (-want,+got):\n%s", diff)
			}
		})
	}
}

// withNamespaces selects the namespaces that have these labels and, with any value, these keys.
func withNamespaces(labels map[string]string, keys ...string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: labels}}
		for _, key := range keys {
			s.AllowedNamespaces.Selector.MatchExpressions = append(s.AllowedNamespaces.Selector.MatchExpressions,
				v1alpha1.NamespaceRequirement{Key: key, Operator: "Exists"})
		}
	}
}

func TestARollbackRestoresTheWholeSpecAndNothingElse(t *testing.T) {
	was := kubectltest.Profile("batch", 1, withNamespaces(map[string]string{"team": "a"}))
	edited := kubectltest.Profile("batch", 2, withNamespaces(map[string]string{"env": "prod"}, "batch"))
	revisions := []*appsv1.ControllerRevision{kubectltest.Revision(was, 1), kubectltest.Revision(edited, 2)}
	for name, applied := range map[string]string{
		"created without kubectl apply":      "",
		"applied with labels, and edited":    `{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":"batch","labels":{"owner":"ml"}},"spec":{"allowedNamespaces":{"selector":{"matchLabels":{"team":"a"}}}}}`,
		"with an annotation that is no JSON": "{",
	} {
		t.Run(name, func(t *testing.T) {
			there := kubectltest.Running(edited.DeepCopy(), revisions[1], 2)
			there.Labels = map[string]string{"owner": "ml"}
			there.Annotations = map[string]string{"note": "of a user"}
			if applied != "" {
				there.Annotations[corev1.LastAppliedConfigAnnotation] = applied
			}
			env := kubectltest.New(t, revisions[0], revisions[1], there)
			printed := env.Run(New, "batch")
			p, err := env.Profile(t.Context(), "batch")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(was.Spec.AllowedNamespaces, p.Spec.AllowedNamespaces); diff != "" {
				t.Errorf("other namespaces than those of the revision (-want +got):\n%s\n%s", diff, printed)
			}
			if p.Labels["owner"] != "ml" || p.Annotations["note"] != "of a user" {
				t.Errorf("labels %v and annotations %v: a rollback changes the spec only", p.Labels, p.Annotations)
			}
			next := struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			}{}
			if err := json.Unmarshal([]byte(p.Annotations[corev1.LastAppliedConfigAnnotation]), &next); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(applied, "owner") && next.Metadata.Labels["owner"] != "ml" {
				t.Error("the next kubectl apply does not know that an earlier one wrote the labels")
			}
		})
	}
}
