package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/config"
)

// addOtherFiles adds the files that are not objects: Chart.yaml, the values and their
// schema, the Deployment, and the notes.
func (c *chart) addOtherFiles() error {
	version, err := os.ReadFile("VERSION")
	if err != nil {
		return err
	}
	number := strings.TrimSpace(string(version))
	c.files["Chart.yaml"] = fmt.Sprintf(chartYAML, number, number, config.MinKubeVersion)
	c.files[".helmignore"] = "*.tgz\n"
	c.files["templates/NOTES.txt"] = notesTemplate
	if err := c.addDeployment(); err != nil {
		return err
	}
	if c.files["values.yaml"], err = c.values(); err != nil {
		return err
	}
	if c.files["values-production.yaml"], err = productionValues(); err != nil {
		return err
	}
	schema, err := json.MarshalIndent(schema(), "", "  ")
	c.files["values.schema.json"] = string(schema) + "\n"
	return err
}

const chartYAML = `# Made by make generate from config/.
apiVersion: v2
name: berth
description: A scheduler whose profiles are custom resources, swapped live and explained pod by pod.
type: application
version: %s
appVersion: v%s
kubeVersion: ">= %s-0"
home: https://github.com/berthdev/berth
sources: [https://github.com/berthdev/berth]
keywords: [scheduler, scheduling, profiles]
maintainers:
- {name: The Berth maintainers, email: maintainers@berth.dev}
`

const notesTemplate = `Berth {{ .Chart.AppVersion }} is installed in the namespace {{ .Release.Namespace }}.

Wait for it, and see that it works:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/berth-manager
  kubectl get sprof
  kubectl berth check{{ if ne .Release.Namespace "berth-system" }} --berth-namespace={{ .Release.Namespace }}{{ end }}

A pod chooses one of these profiles with its schedulerName. Where there was none, Berth creates
the profile berth. No other pod is scheduled by Berth.
{{- if not .Values.crds.install }}

The CustomResourceDefinitions are not part of this release: until they are there, Berth
waits, unready.
{{- end }}
`

const managerTemplate = generatedComment + `{{- $manager := fromYaml (include "berth.manager" .) }}
{{- $pod := $manager.spec.template.spec }}
{{- $container := index $pod.containers 0 }}
%s
{{- $_ := set $manager.spec "replicas" .Values.replicas }}
{{- $_ := set $container "image" (include "berth.image" .) }}
{{- $_ := set $container "imagePullPolicy" .Values.image.pullPolicy }}
{{- $_ := set $container "resources" .Values.resources }}
{{- $_ := set $pod "nodeSelector" .Values.nodeSelector }}
{{- range .Values.args }}
{{- $_ := set $container "args" (append $container.args .) }}
{{- end }}
{{- with .Values.tolerations }}
{{- $_ := set $pod "tolerations" . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
{{- $_ := set $pod "imagePullSecrets" . }}
{{- end }}
{{ toYaml $manager }}
`

const imageTemplate = `
{{- define "berth.image" -}}
{{ .Values.image.repository }}
{{- with .Values.image.tag }}:{{ . }}{{ end }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
`

func (c *chart) addDeployment() error {
	text, err := objectTemplate(c.manager)
	if err != nil {
		return err
	}
	c.files["templates/_manager.tpl"] = generatedComment + "{{- define \"berth.manager\" -}}\n" + text + "{{- end }}\n" + imageTemplate
	c.files["templates/deployment-berth-manager.yaml"] = fmt.Sprintf(managerTemplate, strings.TrimSuffix(c.changes.String(), "\n"))
	return nil
}

// values returns the default values: those of config/default.
func (c *chart) values() (string, error) {
	of := container(c.manager)
	repository, tag, _ := strings.Cut(of["image"].(string), ":")
	spec := c.manager["spec"].(map[string]any)
	var b strings.Builder
	b.WriteString("# Made by make generate from config/. With these values the chart is config/default.\n")
	for _, part := range []struct {
		comment string
		value   map[string]any
	}{
		{"The image of the manager. A digest, as in sha256:…, wins over the tag.", map[string]any{"image": map[string]any{
			"repository": repository, "tag": tag, "digest": "", "pullPolicy": of["imagePullPolicy"],
		}}},
		{"For registries that ask who pulls: [{name: …}].", map[string]any{"imagePullSecrets": []any{}}},
		{"One leads, the others are warm.", map[string]any{"replicas": spec["replicas"]}},
		{"More flags of the manager: docs/reference/flags.md.", map[string]any{"args": []any{}}},
		{"The Go runtime keeps to nine tenths of the memory limit.", map[string]any{"resources": of["resources"]}},
		{"", map[string]any{"nodeSelector": spec["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"]}},
		{"", map[string]any{"tolerations": []any{}}},
		{"install: the kinds are part of the release, and upgraded with it. keep: they, and all\nprofiles, outlive the release.", map[string]any{"crds": map[string]any{"install": true, "keep": true}}},
	} {
		text, err := yaml.Marshal(part.value)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(part.comment) {
			b.WriteString("# " + strings.TrimSuffix(line, "\n") + "\n")
		}
		b.Write(text)
	}
	b.WriteString("# What config/default leaves to choose: docs/guide/production.md.\ncomponents:\n")
	for _, component := range Components {
		fmt.Fprintf(&b, "  # %s\n  %s: false\n", component.Description, component.Value)
	}
	return b.String(), nil
}

// productionValues returns the values with which the chart is config/production.
func productionValues() (string, error) {
	text, err := os.ReadFile(filepath.Join("config", "production", "kustomization.yaml"))
	if err != nil {
		return "", err
	}
	var kustomization struct {
		Components []string `json:"components"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return "", err
	}
	out := "# Made by make generate. With these values the chart is config/production.\ncomponents:\n"
	for _, folder := range kustomization.Components {
		at := slices.IndexFunc(Components, func(c Component) bool { return "../"+c.Folder == folder })
		if at < 0 {
			return "", fmt.Errorf("config/production: %s is not a value of the chart: add it to Components", folder)
		}
		out += "  " + Components[at].Value + ": true\n"
	}
	return out, nil
}

type fields = map[string]any

// schema returns the schema of the values. It rejects unknown values.
func schema() any {
	text := fields{"type": "string"}
	closed := func(properties fields) fields {
		return fields{"type": "object", "additionalProperties": false, "properties": properties}
	}
	components := fields{}
	for _, component := range Components {
		components[component.Value] = fields{"type": "boolean", "description": component.Description}
	}
	all := closed(fields{
		"image": closed(fields{
			"repository": fields{"type": "string", "minLength": 1}, "tag": text,
			"digest":     fields{"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
			"pullPolicy": fields{"enum": []string{"Always", "IfNotPresent", "Never"}},
		}),
		"imagePullSecrets": fields{"type": "array", "items": closed(fields{"name": text})},
		"replicas":         fields{"type": "integer", "minimum": 0},
		"args":             fields{"type": "array", "items": fields{"type": "string", "pattern": "^--?[a-z]"}},
		"resources":        fields{"type": "object"},
		"nodeSelector":     fields{"type": "object", "additionalProperties": text},
		"tolerations":      fields{"type": "array", "items": fields{"type": "object"}},
		"crds":             closed(fields{"install": fields{"type": "boolean"}, "keep": fields{"type": "boolean"}}),
		"components":       closed(components),
		"global":           fields{"type": "object"},
	})
	all["$schema"] = "http://json-schema.org/draft-07/schema#"
	return all
}
