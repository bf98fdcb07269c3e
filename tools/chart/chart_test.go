package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachComponentIsAValue(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("..", "..", "config", "components"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !slices.ContainsFunc(Components, func(c Component) bool { return c.Folder == "components/"+folder.Name() }) {
			t.Errorf("config/components/%s is not in Components", folder.Name())
		}
	}
}

const managerYAML = `kind: Deployment
metadata: {name: berth-manager, namespace: berth-system}
spec: {template: {spec: {nodeName: a, containers: [{name: manager, args: [--a]}]}}}
`

func TestUnsupportedChangesAreErrors(t *testing.T) {
	for name, test := range map[string]struct{ with, want string }{
		"a changed argument":         {strings.Replace(managerYAML, "--a", "--b", 1), "it changes arguments of the manager"},
		"a removed field":            {strings.Replace(managerYAML, "nodeName: a, ", "", 1), "it removes the field nodeName"},
		"a removed object":           {"", "it removes 1 objects"},
		"a change of another object": {managerYAML + "---\nkind: Role\nmetadata: {name: r}\nrules: []\n", "it changes Role//r"},
	} {
		t.Run(name, func(t *testing.T) {
			base, with := managerYAML, test.with
			if strings.Contains(with, "kind: Role") {
				base += "---\nkind: Role\nmetadata: {name: r}\n"
			}
			c := chart{files: map[string]string{}}
			err := c.addComponent(Component{Value: "x"}, objects(t, base), objects(t, with))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestAComponentChangesTheTemplateOfTheDeployment(t *testing.T) {
	c := chart{files: map[string]string{}}
	with := strings.NewReplacer("nodeName: a", "nodeName: b", "[--a]", "[--a, --b]").Replace(managerYAML)
	if err := c.addComponent(Component{Value: "x"}, objects(t, managerYAML), objects(t, with)); err != nil {
		t.Fatal(err)
	}
	want := "{{- if .Values.components.x }}\n" +
		`{{- $_ := mergeOverwrite $manager (fromYaml "spec:\n  template:\n    spec:\n      nodeName: b\n") }}` + "\n" +
		`{{- $_ := set $container "args" (append $container.args "--b") }}` + "\n{{- end }}\n"
	if diff := cmp.Diff(want, c.changes.String()); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func objects(t *testing.T, text string) []object {
	t.Helper()
	all, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
