package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	generatedComment = "{{- /* Made by `make generate` from config/. */ -}}\n"
	// berthNamespace is the namespace in config/, which the chart replaces by that of the release.
	berthNamespace = "berth-system"
	// deploymentID is the only object that components and values change.
	deploymentID = "Deployment/berth-system/berth-manager"
)

// chart is the chart so far.
type chart struct {
	// files are the files of the chart by their path.
	files map[string]string
	// changes are the changes of the Deployment by components, as parts of a template.
	changes strings.Builder
	// manager is the Deployment of config/default.
	manager object
}

// addBase adds the objects of config/default. The Namespace is not part of the chart: Helm
// stores its release in it before it creates anything.
func (c *chart) addBase(objects []object) error {
	for _, o := range objects {
		switch o.field("kind") {
		case "Namespace":
		case "CustomResourceDefinition":
			text, err := crdTemplate(o)
			if err != nil {
				return err
			}
			c.files["templates/crds/"+o.field("metadata", "name")+".yaml"] = generatedComment + "{{- if .Values.crds.install }}\n" + text + "{{- end }}\n"
		case "Deployment":
			if o.id() != deploymentID {
				return fmt.Errorf("%s: the chart supports one Deployment, %s", o.id(), deploymentID)
			}
			c.manager = o
		default:
			text, err := objectTemplate(o)
			if err != nil {
				return err
			}
			c.files["templates/"+fileName(o)] = generatedComment + text
		}
	}
	if c.manager == nil {
		return fmt.Errorf("config/default has no %s", deploymentID)
	}
	return nil
}

// addComponent adds what a component adds to config/default.
func (c *chart) addComponent(component Component, base, with []object) error {
	before := map[string]object{}
	for _, o := range base {
		before[o.id()] = o
	}
	var added strings.Builder
	for _, o := range with {
		old, exists := before[o.id()]
		delete(before, o.id())
		switch {
		case !exists:
			text, err := objectTemplate(o)
			if err != nil {
				return err
			}
			added.WriteString("---\n" + text)
		case o.id() == deploymentID:
			if err := c.addDeploymentChanges(component, old, o); err != nil {
				return err
			}
		case !reflect.DeepEqual(old, o):
			return fmt.Errorf("it changes %s: the chart supports changes of %s only", o.id(), deploymentID)
		}
	}
	if len(before) > 0 {
		return fmt.Errorf("it removes %d objects of config/default", len(before))
	}
	if added.Len() > 0 {
		c.files["templates/components/"+component.Value+".yaml"] = generatedComment +
			"{{- if .Values.components." + component.Value + " }}\n" + added.String() + "{{- end }}\n"
	}
	return nil
}

// addDeploymentChanges adds what a component changes in the Deployment: fields that it sets,
// and arguments that it appends.
func (c *chart) addDeploymentChanges(component Component, old, changed object) error {
	args, err := appendedArguments(arguments(old), arguments(changed))
	if err != nil {
		return err
	}
	fields, err := setFields(withoutArguments(old), withoutArguments(changed))
	if err != nil || len(fields) == 0 && len(args) == 0 {
		return err
	}
	c.changes.WriteString("{{- if .Values.components." + component.Value + " }}\n")
	if len(fields) > 0 {
		text, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		fmt.Fprintf(&c.changes, "{{- $_ := mergeOverwrite $manager (fromYaml %q) }}\n", text)
	}
	for _, arg := range args {
		fmt.Fprintf(&c.changes, "{{- $_ := set $container \"args\" (append $container.args %q) }}\n", arg)
	}
	c.changes.WriteString("{{- end }}\n")
	return nil
}

// container returns the container of the manager.
func container(o object) map[string]any {
	spec := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	return spec["containers"].([]any)[0].(map[string]any)
}

func arguments(o object) (args []string) {
	for _, arg := range container(o)["args"].([]any) {
		args = append(args, arg.(string))
	}
	return args
}

func withoutArguments(o object) map[string]any {
	text, err := yaml.Marshal(o)
	if err != nil {
		panic(err) // it was YAML
	}
	var copied object
	if err := yaml.Unmarshal(text, &copied); err != nil {
		panic(err)
	}
	delete(container(copied), "args")
	return copied
}

// appendedArguments returns the arguments that changed has after those of old.
func appendedArguments(old, changed []string) ([]string, error) {
	if len(changed) < len(old) || !slices.Equal(old, changed[:len(old)]) {
		return nil, fmt.Errorf("it changes arguments of the manager: the chart supports appending only")
	}
	return changed[len(old):], nil
}

// setFields returns the fields of changed that old does not have, or has with another value.
func setFields(old, changed map[string]any) (map[string]any, error) {
	set := map[string]any{}
	for key := range old {
		if _, exists := changed[key]; !exists {
			return nil, fmt.Errorf("it removes the field %s", key)
		}
	}
	for key, value := range changed {
		before, exists := old[key]
		if exists && reflect.DeepEqual(before, value) {
			continue
		}
		inner, isMap := value.(map[string]any)
		beforeInner, wasMap := before.(map[string]any)
		if !isMap || !wasMap {
			set[key] = value
			continue
		}
		deeper, err := setFields(beforeInner, inner)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		set[key] = deeper
	}
	return set, nil
}

func fileName(o object) string {
	return strings.ToLower(o.field("kind")) + "-" + o.field("metadata", "name") + ".yaml"
}

// namespaceMark stands for the namespace until the text is part of a template.
const namespaceMark = "NAMESPACE-OF-THE-RELEASE"

// objectTemplate returns an object as a template, in the namespace of the release.
func objectTemplate(o object) (string, error) {
	text, err := yaml.Marshal(markNamespace(map[string]any(o)))
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(escapeTemplate(string(text)), namespaceMark, "{{ .Release.Namespace | quote }}"), nil
}

// markNamespace replaces the namespace in a value by namespaceMark.
func markNamespace(value any) any {
	switch value := value.(type) {
	case string:
		if value == berthNamespace {
			return namespaceMark
		}
	case map[string]any:
		copied := map[string]any{}
		for key, inner := range value {
			copied[key] = markNamespace(inner)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, inner := range value {
			copied[i] = markNamespace(inner)
		}
		return copied
	}
	return value
}

// escapeTemplate escapes a text so that a template prints it unchanged.
func escapeTemplate(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

// crdTemplate returns a CustomResourceDefinition that Helm keeps if the values say so.
func crdTemplate(o object) (string, error) {
	text, err := objectTemplate(o)
	if err != nil {
		return "", err
	}
	const annotations = "  annotations:\n"
	before, after, found := strings.Cut(text, annotations)
	if !found || strings.Contains(before, "\nspec:") {
		return "", fmt.Errorf("%s: it has no annotations to add helm.sh/resource-policy to", o.id())
	}
	return before + annotations + "    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n" + after, nil
}
