package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

// incompatibleChanges returns why OLM v1 would not upgrade a CRD: stored or accepted objects
// would become invalid, or get another meaning.
func incompatibleChanges(then, now apiextensionsv1.CustomResourceDefinition) (wrong []string) {
	if then.Spec.Scope != now.Spec.Scope {
		wrong = append(wrong, "the scope changes")
	}
	for _, old := range then.Spec.Versions {
		at := slices.IndexFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == old.Name })
		if at < 0 {
			wrong = append(wrong, "version "+old.Name+" goes")
			continue
		}
		wrong = append(wrong, schemaChanges(old.Name, old.Schema.OpenAPIV3Schema, now.Spec.Versions[at].Schema.OpenAPIV3Schema)...)
	}
	return wrong
}

// schemaChanges compares the schemas of a field and of all fields below it.
func schemaChanges(path string, then, now *schema) (wrong []string) {
	if then == nil || now == nil {
		return nil
	}
	for what, changes := range map[string]bool{
		"type": then.Type != now.Type, "pattern": now.Pattern != "" && then.Pattern != now.Pattern,
		"format": then.Format != now.Format, "default": !bytes.Equal(rawJSON(then.Default), rawJSON(now.Default)),
	} {
		if changes {
			wrong = append(wrong, fmt.Sprintf("%s: the %s changes", path, what))
		}
	}
	wrong = append(wrong, boundChanges(path, then, now)...)
	for _, value := range then.Enum {
		if len(now.Enum) > 0 && !slices.ContainsFunc(now.Enum, func(v apiextensionsv1.JSON) bool { return bytes.Equal(v.Raw, value.Raw) }) {
			wrong = append(wrong, fmt.Sprintf("%s: the value %s goes", path, value.Raw))
		}
	}
	for _, name := range now.Required {
		if !slices.Contains(then.Required, name) {
			wrong = append(wrong, fmt.Sprintf("%s.%s: is required now", path, name))
		}
	}
	for name, old := range then.Properties {
		if next, is := now.Properties[name]; is {
			wrong = append(wrong, schemaChanges(path+"."+name, &old, &next)...)
		} else {
			wrong = append(wrong, path+"."+name+": goes")
		}
	}
	if then.Items != nil && now.Items != nil {
		wrong = append(wrong, schemaChanges(path+"[]", then.Items.Schema, now.Items.Schema)...)
	}
	return wrong
}

func boundChanges(path string, then, now *schema) (wrong []string) {
	type limit struct {
		what      string
		then, now *int64
	}
	for _, most := range []limit{
		{"maxLength", then.MaxLength, now.MaxLength}, {"maxItems", then.MaxItems, now.MaxItems},
		{"maxProperties", then.MaxProperties, now.MaxProperties}, {"maximum", toInt64(then.Maximum), toInt64(now.Maximum)},
	} {
		if most.now != nil && (most.then == nil || *most.now < *most.then) {
			wrong = append(wrong, fmt.Sprintf("%s: %s is less", path, most.what))
		}
	}
	for _, least := range []limit{
		{"minLength", then.MinLength, now.MinLength}, {"minItems", then.MinItems, now.MinItems},
		{"minProperties", then.MinProperties, now.MinProperties}, {"minimum", toInt64(then.Minimum), toInt64(now.Minimum)},
	} {
		if least.now != nil && (least.then == nil || *least.now > *least.then) {
			wrong = append(wrong, fmt.Sprintf("%s: %s is more", path, least.what))
		}
	}
	return wrong
}

func toInt64(f *float64) *int64 {
	if f == nil {
		return nil
	}
	return new(int64(*f))
}

func rawJSON(j *apiextensionsv1.JSON) []byte {
	if j == nil {
		return nil
	}
	return j.Raw
}

// Each tag is a release that users may run.
func TestEveryReleaseCanBeUpgradedToThis(t *testing.T) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return string(out), err
	}
	tags, err := git("tag", "--list", "v*")
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range strings.Fields(tags) {
		for _, crd := range readSources(t).crds {
			text, err := git("show", tag+":config/crd/bases/"+filepath.Base(crd.file))
			if err != nil {
				continue // the kind is younger
			}
			var then apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(text), &then); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range incompatibleChanges(then, crd.def) {
				t.Errorf("%s to now: %s: %s", tag, crd.def.Name, wrong)
			}
		}
	}
}

func TestAnIncompatibleChangeIsFound(t *testing.T) {
	profiles := func() apiextensionsv1.CustomResourceDefinition {
		crds := readSources(t).crds
		return crds[slices.IndexFunc(crds, func(c crd) bool { return c.def.Spec.Names.Kind == "SchedulingProfile" })].def
	}
	if wrong := incompatibleChanges(profiles(), profiles()); len(wrong) > 0 {
		t.Errorf("no change is found to hurt: %q", wrong)
	}
	for want, spoil := range map[string]func(*apiextensionsv1.CustomResourceDefinition, *schema){
		"the scope changes":              func(c *apiextensionsv1.CustomResourceDefinition, _ *schema) { c.Spec.Scope = "Namespaced" },
		"version v1alpha1 goes":          func(c *apiextensionsv1.CustomResourceDefinition, _ *schema) { c.Spec.Versions[0].Name = "v1" },
		"v1alpha1.spec.queue: goes":      func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) { delete(s.Properties, "queue") },
		"v1alpha1.spec.queue: is requir": func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) { s.Required = []string{"queue"} },
		`v1alpha1.spec.state: the value "Paused" goes`: func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) {
			changeField(s, "state", func(f *schema) { f.Enum = f.Enum[:1] })
		},
		"v1alpha1.spec.state: the default changes": func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) {
			changeField(s, "state", func(f *schema) { f.Default = &apiextensionsv1.JSON{Raw: []byte(`"Paused"`)} })
		},
		"v1alpha1.spec.base: the type changes": func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) {
			changeField(s, "base", func(f *schema) { f.Type = "integer" })
		},
		"v1alpha1.spec.percentageOfNodesToScore: maximum is less": func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) {
			changeField(s, "percentageOfNodesToScore", func(f *schema) { f.Maximum = new(50.0) })
		},
		"v1alpha1.spec.extenders: minItems is more": func(_ *apiextensionsv1.CustomResourceDefinition, s *schema) {
			changeField(s, "extenders", func(f *schema) { f.MinItems = new(int64(1)) })
		},
	} {
		t.Run(want, func(t *testing.T) {
			now := profiles()
			spec := now.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			spoil(&now, &spec)
			now.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
			if said := incompatibleChanges(profiles(), now); !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("found only %q", said)
			}
		})
	}
}

// changeField changes one field of a schema.
func changeField(s *schema, name string, change func(*schema)) {
	field := s.Properties[name]
	change(&field)
	s.Properties[name] = field
}
