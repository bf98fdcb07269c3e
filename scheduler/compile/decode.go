package compile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// maxArguments is the largest size of one plugin's arguments, in bytes of JSON
// without white space. CEL cannot measure an object of unknown shape, so the
// API server does not hold this bound.
const maxArguments = 64 * 1024

// problem is one thing that is wrong with arguments.
type argumentError struct {
	path   string
	detail string
}

// decodeArguments reads a plugin's arguments: strictly, then with the plugin's
// defaults filled in, then by the plugin's own rules. What one step finds does
// not keep the next from looking, so that all that is wrong is reported at once;
// but arguments of another kind are not looked into.
func decodeArguments(r framework.Registration, given *runtime.RawExtension, path *field.Path) (runtime.Object, []argumentError) {
	if r.NewArgs == nil {
		return nil, argumentErrorAt(path, "plugin %q takes no arguments", r.Name)
	}
	text, problems := compactJSON(given, path)
	if problems != nil {
		return nil, problems
	}
	want := newArguments(r).GetObjectKind().GroupVersionKind()
	problems, known := checkKind(text, expectedKind(r.Name, want), path)
	if !known || len(problems) > 0 && fault.OneArgumentError {
		return nil, problems
	}
	object, shape, whole := decodeObject(r, text, path)
	for _, p := range shape {
		if !slices.Contains(problems, p.argumentError) { // checkKind may have found it, too
			problems = append(problems, p.argumentError)
		}
	}
	if !whole || len(problems) > 0 && fault.OneArgumentError {
		return nil, problems
	}
	// What the user wrote there was checked; arguments that differ in nothing
	// else are equal.
	object.GetObjectKind().SetGroupVersionKind(want)
	finished, judged := defaultAndValidate(r, object, path)
	for _, p := range judged {
		if !slices.ContainsFunc(shape, func(s decodeError) bool { return s.causes(p) }) {
			problems = append(problems, p)
		}
	}
	if problems != nil {
		return nil, problems
	}
	return finished, nil
}

// shapeProblem is a problem of a value that was left out for its sake.
type decodeError struct {
	argumentError
	// lost is the field that has no value now.
	missingField string
}

// causes reports whether p may be about what was left out: the field itself,
// something in it, or what it is in.
func (s decodeError) causes(p argumentError) bool {
	within := func(path, of string) bool {
		rest, ok := strings.CutPrefix(path, of)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return s.missingField != "" && (within(p.path, s.missingField) || within(s.missingField, p.path))
}

// decodeShape decodes arguments into a new object. A value of the wrong type
// counts as null, so that the others are read. whole is false where that does
// not help.
func decodeObject(r framework.Registration, text []byte, path *field.Path) (object runtime.Object, problems []decodeError, whole bool) {
	for range maxErrorsInMessage {
		object = newArguments(r)
		var into any = object
		if raw, ok := object.(*runtime.Unknown); ok {
			raw.Raw = text
			into = &map[string]any{}
		}
		strict, err := kjson.UnmarshalStrict(text, into)
		if err == nil {
			for _, s := range strict {
				problems = append(problems, strictError(s, reflect.TypeOf(object), path))
			}
			return object, problems, true
		}
		p, rest := wrongType(text, err, path)
		problems = append(problems, decodeError{argumentError: p, missingField: p.path})
		if rest == nil {
			break
		}
		text = rest
	}
	return nil, problems, false
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

// finishArguments fills in a plugin's defaults, converts a copy to the type that
// its factory takes and asks for its verdict on that. All three are a plugin's
// code: a panic there is a fault of the plugin, told as one. What it returns is
// not converted: its JSON is what a profile can say.
func defaultAndValidate(r framework.Registration, object runtime.Object, path *field.Path) (_ runtime.Object, problems []argumentError) {
	defer func() {
		if p := recover(); p != nil {
			problems = argumentErrorAt(path, "plugin %q panicked over its arguments: %v", r.Name, p)
		}
	}()
	if r.Default != nil {
		r.Default(object)
	}
	converted, err := r.ConvertArgs(object)
	if err != nil {
		return object, argumentErrorAt(path, "%v", err)
	}
	if r.Validate == nil {
		return object, nil
	}
	for _, e := range r.Validate(converted, path) {
		problems = append(problems, argumentError{path: e.Field, detail: e.ErrorBody()})
	}
	return object, problems
}

// textOf returns arguments as compact JSON of an object.
func compactJSON(given *runtime.RawExtension, path *field.Path) ([]byte, []argumentError) {
	raw := given.Raw
	if raw == nil && given.Object != nil {
		encoded, err := json.Marshal(given.Object)
		if err != nil {
			return nil, argumentErrorAt(path, "cannot be written as JSON: %v", err)
		}
		raw = encoded
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("{}"), nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return nil, argumentErrorAt(path, "is not JSON: %v", err)
	}
	if text.Len() > maxArguments {
		return nil, argumentErrorAt(path, "is %d bytes of JSON, must be at most %d (64 KiB)", text.Len(), maxArguments)
	}
	if text.Bytes()[0] != '{' {
		return nil, argumentErrorAt(path, "must be an object")
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

// checkKind compares apiVersion and kind. known is false where the arguments
// are of another kind, or of none that can be read.
func checkKind(text []byte, want schema.GroupVersionKind, path *field.Path) (problems []argumentError, known bool) {
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &is); err != nil {
		p, _ := wrongType(text, err, path)
		problems = append(problems, p)
	}
	apiVersion, kind := want.ToAPIVersionAndKind()
	if is.APIVersion != "" && is.APIVersion != apiVersion {
		problems = append(problems, argumentErrorAt(path.Child("apiVersion"), "must be %q or left out, is %q", apiVersion, is.APIVersion)...)
	}
	if is.Kind != "" && is.Kind != kind {
		return append(problems, argumentErrorAt(path.Child("kind"), "must be %q or left out, is %q", kind, is.Kind)...), false
	}
	return problems, true
}

// notInShape tells a strict decoding error: a field that the plugin does not
// know, or one that is there twice.
func strictError(err error, arguments reflect.Type, path *field.Path) decodeError {
	var at kjson.FieldError
	if !errors.As(err, &at) {
		return decodeError{argumentError: argumentError{path: path.String(), detail: err.Error()}}
	}
	p := argumentError{path: path.String() + "." + at.FieldPath(), detail: "unknown field: the plugin has no such argument"}
	if strings.HasPrefix(err.Error(), "duplicate field") {
		p.detail = "duplicate field: it may be given once"
		return decodeError{argumentError: p}
	}
	above, name := "", at.FieldPath()
	if dot := strings.LastIndex(name, "."); dot >= 0 {
		above, name = name[:dot], name[dot+1:]
	}
	near := Suggest(name, fieldsAt(arguments, above))
	if near == "" {
		return decodeError{argumentError: p}
	}
	p.detail += fmt.Sprintf(", did you mean %q?", near)
	return decodeError{argumentError: p, missingField: strings.TrimSuffix(p.path, name) + near}
}

func argumentErrorAt(path *field.Path, format string, args ...any) []argumentError {
	return []argumentError{{path: path.String(), detail: fmt.Sprintf(format, args...)}}
}
