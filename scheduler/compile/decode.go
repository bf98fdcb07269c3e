package compile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"

	"github.com/berthdev/berth/scheduler/framework"
)

// maxArguments is the largest size of one plugin's arguments, in bytes of JSON
// without white space. CEL cannot measure an object of unknown shape, so the
// API server does not hold this bound.
const maxArguments = 64 * 1024

// problem is one thing that is wrong with arguments.
type problem struct {
	path   string
	detail string
}

// decodeArguments reads a plugin's arguments: strictly, then with the plugin's
// defaults filled in, then by the plugin's own rules. Later steps need the
// earlier ones, so it stops at the first step that finds problems.
func decodeArguments(r framework.Registration, given *runtime.RawExtension, path *field.Path) (runtime.Object, []problem) {
	if r.NewArgs == nil {
		return nil, problemAt(path, "plugin %q takes no arguments", r.Name)
	}
	text, problems := textOf(given, path)
	if problems != nil {
		return nil, problems
	}
	object := newArguments(r)
	want := object.GetObjectKind().GroupVersionKind()
	if problems := checkKind(text, expectedKind(r.Name, want), path); problems != nil {
		return nil, problems
	}
	var into any = object
	if raw, ok := object.(*runtime.Unknown); ok {
		raw.Raw = text
		into = &map[string]any{}
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return nil, []problem{wrongType(text, err, path)}
	}
	for _, s := range strict {
		problems = append(problems, notInShape(s, path))
	}
	if problems != nil {
		return nil, problems
	}
	// What the user wrote there was checked; arguments that differ in nothing
	// else are equal.
	object.GetObjectKind().SetGroupVersionKind(want)
	return finishArguments(r, object, path)
}

// newArguments returns empty ones. A plugin that reads them itself gets them as
// kube-scheduler hands them over: as text.
func newArguments(r framework.Registration) runtime.Object {
	object := r.NewArgs()
	if raw, ok := object.(*runtime.Unknown); ok {
		raw.Raw, raw.ContentType = []byte("{}"), runtime.ContentTypeJSON
	}
	return object
}

// finishArguments fills in a plugin's defaults and asks for its verdict. Both
// are a plugin's code: a panic there is a fault of the plugin, told as one.
func finishArguments(r framework.Registration, object runtime.Object, path *field.Path) (_ runtime.Object, problems []problem) {
	defer func() {
		if p := recover(); p != nil {
			problems = problemAt(path, "plugin %q panicked over its arguments: %v", r.Name, p)
		}
	}()
	if r.Default != nil {
		r.Default(object)
	}
	if r.Validate == nil {
		return object, nil
	}
	for _, e := range r.Validate(object, path) {
		problems = append(problems, problem{path: e.Field, detail: e.ErrorBody()})
	}
	return object, problems
}

// textOf returns arguments as compact JSON of an object.
func textOf(given *runtime.RawExtension, path *field.Path) ([]byte, []problem) {
	raw := given.Raw
	if raw == nil && given.Object != nil {
		encoded, err := json.Marshal(given.Object)
		if err != nil {
			return nil, problemAt(path, "cannot be written as JSON: %v", err)
		}
		raw = encoded
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("{}"), nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return nil, problemAt(path, "is not JSON: %v", err)
	}
	if text.Len() > maxArguments {
		return nil, problemAt(path, "is %d bytes of JSON, must be at most %d (64 KiB)", text.Len(), maxArguments)
	}
	if text.Bytes()[0] != '{' {
		return nil, problemAt(path, "must be an object")
	}
	return text.Bytes(), nil
}

// expectedKind is the apiVersion and kind that arguments may carry: their
// type's own, else what kube-scheduler's configuration calls them.
func expectedKind(plugin string, own schema.GroupVersionKind) schema.GroupVersionKind {
	if !own.Empty() {
		return own
	}
	return configv1.SchemeGroupVersion.WithKind(plugin + "Args")
}

func checkKind(text []byte, want schema.GroupVersionKind, path *field.Path) (problems []problem) {
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &is); err != nil {
		return []problem{wrongType(text, err, path)}
	}
	apiVersion, kind := want.ToAPIVersionAndKind()
	if is.APIVersion != "" && is.APIVersion != apiVersion {
		problems = append(problems, problemAt(path.Child("apiVersion"), "must be %q or left out, is %q", apiVersion, is.APIVersion)...)
	}
	if is.Kind != "" && is.Kind != kind {
		problems = append(problems, problemAt(path.Child("kind"), "must be %q or left out, is %q", kind, is.Kind)...)
	}
	return problems
}

// notInShape tells a strict decoding error: a field that the plugin does not
// know, or one that is there twice.
func notInShape(err error, path *field.Path) problem {
	var at kjson.FieldError
	if !errors.As(err, &at) {
		return problem{path: path.String(), detail: err.Error()}
	}
	detail := "unknown field: the plugin has no such argument"
	if strings.HasPrefix(err.Error(), "duplicate field") {
		detail = "duplicate field: it may be given once"
	}
	return problem{path: path.String() + "." + at.FieldPath(), detail: detail}
}

func problemAt(path *field.Path, format string, args ...any) []problem {
	return []problem{{path: path.String(), detail: fmt.Sprintf(format, args...)}}
}
