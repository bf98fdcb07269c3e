package pages

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Manifests are the objects of a block of YAML. What follows the word yaml says
// what the block is:
//
//	(nothing)       whole objects
//	args NAME       the arguments of plugin NAME: a profile is put around them
//	into FILE FIELD a part of the object in FILE, below FIELD, in whose place it is put
//
// root is the module's folder. The error names what is none of these.
func (b Block) Manifests(root string) (string, error) {
	what, rest, _ := strings.Cut(b.Info, " ")
	switch what {
	case "":
		return withCABundle(root, b.Text)
	case "args":
		return "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: arguments}\n" +
			"spec:\n  pluginConfig:\n  - name: " + rest + "\n    args:\n" + indentLines(b.Text, "      "), nil
	case "into":
		file, field, _ := strings.Cut(rest, " ")
		return mergeInto(filepath.Join(root, filepath.FromSlash(file)), field, b.Text)
	}
	return "", fmt.Errorf("%q: a block of YAML is whole, or says \"args NAME\" or \"into FILE FIELD\"", b.Info)
}

// bundle is an authority's certificate in a manifest.
var caBundle = regexp.MustCompile(`caBundle: (\S+)`)

// vouched is text with a certificate where it has an ellipsis: nobody reads one.
func withCABundle(root, text string) (string, error) {
	if !strings.Contains(text, "caBundle: …") {
		return text, nil
	}
	sample, err := os.ReadFile(filepath.Join(root, "config", "samples", "extender.yaml"))
	if err != nil {
		return "", err
	}
	found := caBundle.FindString(string(sample))
	if found == "" {
		return "", fmt.Errorf("config/samples/extender.yaml has no caBundle")
	}
	return strings.ReplaceAll(text, "caBundle: …", found), nil
}

// into puts a part in the place of what the object in file has below field.
func mergeInto(file, field, part string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var whole, above map[string]any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return "", err
	}
	below, ok := whole[field].(map[string]any)
	if !ok {
		return "", fmt.Errorf("%s has no %q to put it into", file, field)
	}
	if err := yaml.UnmarshalStrict([]byte(part), &above); err != nil {
		return "", err
	}
	maps.Copy(below, above)
	joined, err := yaml.Marshal(whole)
	return string(joined), err
}

func indentLines(text, by string) string {
	out := ""
	for line := range strings.Lines(text) {
		out += by + line
	}
	return out
}
