// Package manifest reads files with objects of Berth and validates them as the API server
// would: with the CustomResourceDefinitions that this plugin was built with, and with the
// API server's own code.
package manifest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// Object is a document with a kind of Berth.
type Object struct {
	// Source is the file, and the number of the document if the file has several.
	Source string
	// Title is kind/name.
	Title string
	// Errors are why the API server would reject the object; empty if it would store it.
	Errors []string
	// Profile or Config is the object as the API server would store it. Both are nil if it would
	// be rejected, or has another kind.
	Profile *v1alpha1.SchedulingProfile
	Config  *v1alpha1.PluginConfig
}

// Files are the documents of files.
type Files struct {
	// Objects are the documents with a kind of Berth, in order.
	Objects []*Object
	// Others are the documents of other kinds.
	Others []Document
}

// Read reads files, directories and, for "-", in. Documents are applied in order: a document
// may update the object of an earlier one. The error is about a file that cannot be read.
func Read(ctx context.Context, names []string, in io.Reader) (*Files, error) {
	known, err := crdKinds()
	if err != nil {
		return nil, err
	}
	found, err := readDocuments(names, in)
	if err != nil {
		return nil, err
	}
	files, stored := &Files{}, map[string]*unstructured.Unstructured{}
	for _, d := range found {
		if d.err != nil {
			files.Objects = append(files.Objects, &Object{Source: d.source, Title: "the document", Errors: []string{d.err.Error()}})
			continue
		}
		gvk := d.object.GroupVersionKind()
		if gvk.Group != v1alpha1.GroupVersion.Group && gvk.Kind != "" {
			files.Others = append(files.Others, Document{Source: d.source, Object: d.object})
			continue
		}
		object := &Object{Source: d.source, Title: gvk.Kind + "/" + d.object.GetName()}
		files.Objects = append(files.Objects, object)
		if object.Errors = checkKind(gvk, known); object.Errors != nil {
			continue
		}
		if object.Errors = known[gvk.Kind].admit(ctx, d.object, stored[object.Title]); object.Errors != nil {
			continue
		}
		stored[object.Title] = d.object
		if err := object.set(d.object); err != nil {
			object.Errors = []string{err.Error()}
		}
	}
	return files, nil
}

func (o *Object) set(from *unstructured.Unstructured) error {
	switch from.GetKind() {
	case "SchedulingProfile":
		o.Profile = &v1alpha1.SchedulingProfile{}
		return Decode(from, o.Profile)
	case "PluginConfig":
		o.Config = &v1alpha1.PluginConfig{}
		return Decode(from, o.Config)
	}
	return nil
}

// checkKind returns errors for the apiVersion and kind of a document.
func checkKind(gvk schema.GroupVersionKind, known map[string]crdKind) []string {
	names := slices.Sorted(maps.Keys(known))
	_, there := known[gvk.Kind]
	switch {
	case gvk.Kind == "":
		return []string{"kind: Required value"}
	case gvk.GroupVersion() != v1alpha1.GroupVersion:
		return []string{fmt.Sprintf("apiVersion: Unsupported value: %q: supported values: %q", gvk.GroupVersion(), v1alpha1.GroupVersion)}
	case !there:
		message := fmt.Sprintf("kind: unknown kind %q in %s", gvk.Kind, v1alpha1.GroupVersion)
		if near := compile.Suggest(gvk.Kind, names); near != "" {
			return []string{fmt.Sprintf("%s, did you mean %q?", message, near)}
		}
		return []string{message + ": supported kinds: " + strings.Join(names, ", ")}
	}
	return nil
}

// Configs returns the PluginConfigs as they are after all documents are applied, by name.
func (f *Files) Configs() map[string]*v1alpha1.PluginConfig {
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, o := range f.Objects {
		if o.Config != nil {
			configs[o.Config.Name] = o.Config
		}
	}
	return configs
}

// Profiles returns the profiles as they are after all documents are applied, in the order in
// which their names first appear.
func (f *Files) Profiles() []*v1alpha1.SchedulingProfile {
	var profiles []*v1alpha1.SchedulingProfile
	for _, o := range f.Objects {
		if o.Profile == nil {
			continue
		}
		at := slices.IndexFunc(profiles, func(p *v1alpha1.SchedulingProfile) bool { return p.Name == o.Profile.Name })
		if at < 0 {
			profiles = append(profiles, o.Profile)
		} else {
			profiles[at] = o.Profile
		}
	}
	return profiles
}
