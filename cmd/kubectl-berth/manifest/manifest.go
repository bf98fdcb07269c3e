// Package manifest reads files of our kinds, and says of each document what the
// API server would refuse: by the CustomResourceDefinitions that this plugin was
// built with, and by the code that the API server runs.
package manifest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// Object is one document of our kinds.
type Object struct {
	// Source is the file, and where it has several documents, which.
	Source string
	// Title is its kind and name.
	Title string
	// Refused is what the API server would refuse; empty: it stores the object.
	Errors []string
	// Profile or Config is the object as it would be stored. Both are nil where
	// it is refused, or of another kind.
	Profile *v1alpha1.SchedulingProfile
	Config  *v1alpha1.PluginConfig
}

// Files is what files hold.
type Files struct {
	// Objects are those of our kinds, in order.
	Objects []*Object
	// Others are the documents of kinds that are not ours.
	Others []Document
}

// Read reads files, folders and, for "-", in. The documents are applied in order,
// so that one may change what came before it. The error is of a file that cannot
// be read.
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
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch from.GetKind() {
	case "SchedulingProfile":
		o.Profile = &v1alpha1.SchedulingProfile{}
		return convert(from.Object, o.Profile)
	case "PluginConfig":
		o.Config = &v1alpha1.PluginConfig{}
		return convert(from.Object, o.Config)
	}
	return nil
}

// noSuchKind says what is wrong with a document's apiVersion and kind.
func checkKind(gvk schema.GroupVersionKind, known map[string]crdKind) []string {
	names := slices.Sorted(maps.Keys(known))
	_, there := known[gvk.Kind]
	switch {
	case gvk.Kind == "":
		return []string{"kind: Required value"}
	case gvk.GroupVersion() != v1alpha1.GroupVersion:
		return []string{fmt.Sprintf("apiVersion: must be %s, is %s", v1alpha1.GroupVersion, gvk.GroupVersion())}
	case !there:
		fault := fmt.Sprintf("kind: no kind %q in %s", gvk.Kind, v1alpha1.GroupVersion)
		if near := compile.Suggest(gvk.Kind, names); near != "" {
			return []string{fmt.Sprintf("%s, did you mean %q?", fault, near)}
		}
		return []string{fault + ": there are " + strings.Join(names, ", ")}
	}
	return nil
}

// Configs are the PluginConfigs that would be stored in the end, by name.
func (f *Files) Configs() map[string]*v1alpha1.PluginConfig {
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, o := range f.Objects {
		if o.Config != nil {
			configs[o.Config.Name] = o.Config
		}
	}
	return configs
}

// Profiles are the profiles that would be stored in the end, in the order in
// which their names came.
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
