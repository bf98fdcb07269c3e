package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Manifests returns the objects of a block of YAML. What follows the word yaml says what the
// block contains:
//
//	(nothing)       whole objects
//	args NAME       the arguments of plugin NAME, which become part of a profile
//	into FILE FIELD fields of the object in FILE, which replace those below FIELD
//
// root is the folder of the module. The error names a block that is none of these.
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
	return "", fmt.Errorf("%q: a block of YAML must have no info, or \"args NAME\" or \"into FILE FIELD\"", b.Info)
}

// caBundle is the certificate of an authority in a manifest.
var caBundle = regexp.MustCompile(`caBundle: (\S+)`)

// withCABundle replaces an ellipsis by a certificate: pages do not show certificates.
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

// mergeInto replaces fields below field of the object in file.
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
		return "", fmt.Errorf("%s has no field %q", file, field)
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
