package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// FuzzRead reads any text as what a user gives with -f. An object is stored or has errors; one
// that the API server would store compiles, or is rejected with a message, and never because
// of a value whose bounds the CustomResourceDefinition has.
func FuzzRead(f *testing.F) {
	for _, folder := range []string{"../../../config/samples", "../../../test/support/badinput"} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			f.Fatalf("no files in %s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: berth.dev/v1alpha1, kind: PluginConfig, metadata: {name: a}, spec: {plugin: NodeName}}, 7]"))
	f.Add([]byte("a: &a [*a, *a]\n---\n&x\n--- \n{\"kind\": \"SchedulingProfile\", \"kind\": \"X\"}"))
	f.Add([]byte("apiVersion: berth.dev/v1\nkind: SchedulingProfil\nmetadata: {name: [1]}"))
	registry := plugins.InTree()
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 32<<10 {
			return
		}
		files, err := Read(t.Context(), []string{"-"}, strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("standard input can be read: %v", err)
		}
		configs := files.Configs()
		for _, o := range files.Objects {
			if o.Source == "" || o.Title == "" || (o.Profile != nil || o.Config != nil) && len(o.Errors) > 0 {
				t.Fatalf("%+v: want a source, a title, and no object that has errors", o)
			}
			for _, message := range o.Errors {
				if message == "" {
					t.Fatalf("%s: an error that says nothing", o.Title)
				}
			}
			if o.Config != nil {
				hash, rejection := compile.Config(o.Config, registry)
				if (hash == "") == (rejection == nil) {
					t.Fatalf("%s: hash %q and %v", o.Title, hash, rejection)
				}
			}
			if o.Profile == nil {
				continue
			}
			_, rejection := compile.Profile(compile.Input{Profile: o.Profile, Configs: configs, Registry: registry, Extenders: compile.AllExtenders})
			if wrong := boundOf(rejection); wrong != "" {
				t.Fatalf("%s: the API server would store it, and the compiler says %s", o.Title, wrong)
			}
		}
		for _, d := range files.Others {
			if d.Object == nil || d.Source == "" {
				t.Fatalf("%+v: want an object and its source", d)
			}
		}
		_, _ = ParseText("text", string(text))
	})
}

// boundOf returns an error about a bound that the schema has as well.
func boundOf(rejection *compile.Rejection) string {
	if rejection == nil {
		return ""
	}
	for _, e := range rejection.Errors {
		for _, path := range []string{"spec.queue.", "spec.decisions.", "spec.state", "spec.base", "spec.activation", "spec.percentageOfNodesToScore"} {
			if strings.HasPrefix(e.Path, path) && !strings.Contains(e.Detail, "initialBackoffSeconds") {
				return fmt.Sprintf("%s: %s", e.Path, e.Detail)
			}
		}
	}
	return ""
}
