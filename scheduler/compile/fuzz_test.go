package compile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/replay/run"
)

// written is what a user wrote: PluginConfigs and one profile.
type written struct {
	profile *v1alpha1.SchedulingProfile
	configs map[string]*v1alpha1.PluginConfig
}

// read reads documents of YAML as the API server and kubectl do, without validation; false
// where they are no such objects.
func read(text string) (w written, ok bool) {
	w.configs = map[string]*v1alpha1.PluginConfig{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(document), &object.Object) != nil || object.Object == nil {
			continue
		}
		convert := runtime.DefaultUnstructuredConverter.FromUnstructured
		switch object.GetKind() {
		case "PluginConfig":
			config := &v1alpha1.PluginConfig{}
			if convert(object.Object, config) != nil {
				return w, false
			}
			w.configs[config.Name] = config
		case "SchedulingProfile":
			w.profile = &v1alpha1.SchedulingProfile{}
			if convert(object.Object, w.profile) != nil {
				return w, false
			}
		}
	}
	return w, w.profile != nil
}

// addSeeds adds the samples, and the cases that must be rejected.
func addSeeds(f *testing.F) {
	f.Helper()
	for _, folder := range []string{"../../config/samples", "../../test/support/badinput"} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			f.Fatalf("no files in %s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
}

func (w written) compile(permissions compile.ExtenderPermissions) (*compile.Blueprint, *compile.Rejection) {
	return compile.Profile(compile.Input{Profile: w.profile, Configs: w.configs, Registry: plugins.InTree(), Version: "fuzz", Extenders: permissions})
}

// FuzzProfile compiles what a user wrote. A rejection names fields of the spec. A Blueprint
// has the plugins that the rules ask for, its plugins can be built, and the profile as the
// history stores it compiles to the same.
func FuzzProfile(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		w, ok := read(text)
		if !ok {
			return
		}
		before := w.profile.DeepCopy()
		b, rejection := w.compile(compile.AllExtenders)
		if !equality.Semantic.DeepEqual(before, w.profile) {
			t.Fatalf("compiling changed the profile:\n%s", cmp.Diff(before, w.profile))
		}
		if (b == nil) == (rejection == nil) {
			t.Fatalf("Blueprint %v and Rejection %v", b, rejection)
		}
		if rejection != nil {
			checkRejection(t, rejection)
			_, again := w.compile(compile.AllExtenders)
			if diff := cmp.Diff(rejection, again); diff != "" {
				t.Fatalf("compiled twice (-first,+second):\n%s", diff)
			}
			return
		}
		checkBlueprint(t, b)
		if _, refused := w.compile(compile.ExtenderPermissions{}); (refused != nil) != (len(w.profile.Spec.Extenders) > 0) {
			t.Fatalf("without extenders: %v", refused)
		}
		checkStored(t, w, b)
	})
}

// specFields are the JSON names of the fields of a spec.
var specFields = func() (names []string) {
	for field := range reflect.TypeFor[v1alpha1.SchedulingProfileSpec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

var firstField = regexp.MustCompile(`^spec\.([A-Za-z]+)`)

// checkRejection checks that each error names a field of the spec and says what is wrong, and
// that the message fits into a condition.
func checkRejection(t *testing.T, r *compile.Rejection) {
	t.Helper()
	if len(r.Errors) == 0 {
		t.Fatal("a rejection without errors")
	}
	for _, e := range r.Errors {
		name := firstField.FindStringSubmatch(e.Path)
		if name == nil || !slices.Contains(specFields, name[1]) || e.Detail == "" || e.Reason == "" {
			t.Fatalf("the error names no field of the spec: %+v", e)
		}
		if c := v1alpha1.ConditionType(e.Condition); c != v1alpha1.ConditionAccepted && c != v1alpha1.ConditionResolvedRefs {
			t.Fatalf("the error makes no condition False: %+v", e)
		}
	}
	if condition, reason := r.Condition(); condition == "" || reason == "" {
		t.Fatalf("condition %q, reason %q", condition, reason)
	}
	if n := utf8.RuneCountInString(r.Message()); n == 0 || n > 32768 {
		t.Fatalf("the message has %d characters, and a condition at most 32768", n)
	}
}

var hashPattern = regexp.MustCompile(`^[0-9a-f]{10}$`)

// checkBlueprint checks what every Blueprint has.
func checkBlueprint(t *testing.T, b *compile.Blueprint) {
	t.Helper()
	registry := plugins.InTree()
	if !hashPattern.MatchString(b.Hash) || len(b.Chains[framework.QueueSort]) != 1 || len(b.Chains[framework.Bind]) == 0 {
		t.Fatalf("hash %q, queue sort %v, bind %v", b.Hash, b.Chains[framework.QueueSort], b.Chains[framework.Bind])
	}
	left := fwk.MaxTotalScore
	for point, entry := range b.Chains.All() {
		registration, known := registry[entry.Name]
		if !known || !registration.Implements(point) {
			t.Fatalf("plugin %q runs at %s", entry.Name, point)
		}
		if (point == framework.Score) != (entry.Weight > 0) {
			t.Fatalf("plugin %q has weight %d at %s", entry.Name, entry.Weight, point)
		}
		if left -= int64(entry.Weight) * fwk.MaxScore; left < 0 {
			t.Fatal("the total score overflows")
		}
		if _, has := b.Args[entry.Name]; has != (registration.NewArgs != nil) {
			t.Fatalf("plugin %q: has arguments: %t", entry.Name, has)
		}
	}
	for point, chain := range b.Chains {
		for i, entry := range chain {
			if slices.ContainsFunc(chain[:i], func(e framework.Entry) bool { return e.Name == entry.Name }) {
				t.Fatalf("plugin %q runs twice at %s", entry.Name, point)
			}
		}
	}
	if q := b.Queue; q.InitialBackoff <= 0 || q.MaxBackoff < q.InitialBackoff || q.FlushAfter < 0 {
		t.Fatalf("queue %+v", q)
	}
}

// checkStored checks that the profile as the history stores it, which needs no PluginConfig,
// compiles to the same, and that its plugins can be built.
func checkStored(t *testing.T, w written, b *compile.Blueprint) {
	t.Helper()
	data, err := compile.SelfContained(w.profile, w.configs)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := v1alpha1.DecodeProfile(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	again, rejection := written{profile: stored}.compile(compile.AllExtenders)
	if rejection != nil || again.Hash != b.Hash {
		t.Fatalf("hash %s, and as it is stored %v (%v)\n%s", b.Hash, again, rejection, data)
	}
	if _, err := run.NewBerth(t.Context(), run.Config{Profile: stored}); err != nil {
		t.Fatalf("its plugins cannot be built: %v\n%s", err, data)
	}
}
