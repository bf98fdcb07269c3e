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

	"github.com/berthdev/berth/scheduler/framework"
)

// maxArguments bounds the arguments of one plugin, in bytes of compact JSON. The API
// server cannot check this bound: CEL cannot measure an object without a schema.
const maxArguments = 64 * 1024

// argumentError is one field error in a plugin's arguments.
type argumentError struct {
	path   string
	detail string
}

// decodeArguments decodes a plugin's arguments strictly, sets the plugin's defaults
// and runs the plugin's validation. An error in one step does not stop the next, so
// that the user sees all errors at once; but arguments of another kind are not
// decoded at all.
func decodeArguments(r framework.Registration, given *runtime.RawExtension, path *field.Path) (runtime.Object, []argumentError) {
	if r.NewArgs == nil {
		return nil, argumentErrorAt(path, "plugin %q takes no arguments", r.Name)
	}
	text, argErrs := compactJSON(given, path)
	if argErrs != nil {
		return nil, argErrs
	}
	want := newArguments(r).GetObjectKind().GroupVersionKind()
	argErrs, known := checkKind(text, expectedKind(r.Name, want), path)
	if !known {
		return nil, argErrs
	}
	object, decodeErrs, whole := decodeObject(r, text, path)
	for _, p := range decodeErrs {
		if !slices.Contains(argErrs, p.argumentError) { // checkKind may have reported it already
			argErrs = append(argErrs, p.argumentError)
		}
	}
	if !whole {
		return nil, argErrs
	}
	// checkKind has compared the type that the user wrote. Setting it makes arguments
	// with and without it equal.
	object.GetObjectKind().SetGroupVersionKind(want)
	finished, validationErrs := defaultAndValidate(r, object, path)
	for _, p := range validationErrs {
		if !slices.ContainsFunc(decodeErrs, func(s decodeError) bool { return s.causes(p) }) {
			argErrs = append(argErrs, p)
		}
	}
	if argErrs != nil {
		return nil, argErrs
	}
	return finished, nil
}

// decodeError is an argumentError that leaves a field without its value.
type decodeError struct {
	argumentError
	// missingField is the path of that field; empty where no value is missing.
	missingField string
}

// causes reports whether p may follow from the missing value: whether it is about
// the missing field, about something inside it, or about an object that contains it.
func (s decodeError) causes(p argumentError) bool {
	within := func(path, of string) bool {
		rest, ok := strings.CutPrefix(path, of)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return s.missingField != "" && (within(p.path, s.missingField) || within(s.missingField, p.path))
}

// decodeObject decodes arguments into a new object. It reads a value of the wrong
// type as null, so that the other values are decoded. whole is false where that does
// not help.
func decodeObject(r framework.Registration, text []byte, path *field.Path) (object runtime.Object, argErrs []decodeError, whole bool) {
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
				argErrs = append(argErrs, strictError(s, reflect.TypeOf(object), path))
			}
			return object, argErrs, true
		}
		p, rest := wrongType(text, err, path)
		argErrs = append(argErrs, decodeError{argumentError: p, missingField: p.path})
		if rest == nil {
			break
		}
		text = rest
	}
	return nil, argErrs, false
}

// newArguments returns an empty arguments object. A plugin that decodes its arguments
// itself gets a runtime.Unknown that holds JSON, as from kube-scheduler.
func newArguments(r framework.Registration) runtime.Object {
	object := r.NewArgs()
	if raw, ok := object.(*runtime.Unknown); ok {
		raw.Raw, raw.ContentType = []byte("{}"), runtime.ContentTypeJSON
	}
	return object
}

// defaultAndValidate sets a plugin's defaults, converts a copy to the type that its
// factory takes and validates that copy. All three call code of the plugin, so a
// panic is returned as an error of the plugin. The returned object is not converted:
// its JSON is what a user can write in a profile.
func defaultAndValidate(r framework.Registration, object runtime.Object, path *field.Path) (_ runtime.Object, argErrs []argumentError) {
	defer func() {
		if p := recover(); p != nil {
			argErrs = argumentErrorAt(path, "plugin %q panicked over its arguments: %v", r.Name, p)
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
		argErrs = append(argErrs, argumentError{path: e.Field, detail: e.ErrorBody()})
	}
	return object, argErrs
}

// compactJSON returns arguments as compact JSON and checks that they are one object
// of at most maxArguments bytes. No arguments are an empty object.
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

// expectedKind is the apiVersion and kind that arguments may carry: those of their
// Go type, else the ones of kube-scheduler's configuration.
func expectedKind(plugin string, own schema.GroupVersionKind) schema.GroupVersionKind {
	if !own.Empty() {
		return own
	}
	return configv1.SchemeGroupVersion.WithKind(plugin + "Args")
}

// checkKind compares apiVersion and kind with want. known is false where the
// arguments are of another kind.
func checkKind(text []byte, want schema.GroupVersionKind, path *field.Path) (argErrs []argumentError, known bool) {
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &is); err != nil {
		p, _ := wrongType(text, err, path)
		argErrs = append(argErrs, p)
	}
	apiVersion, kind := want.ToAPIVersionAndKind()
	if is.APIVersion != "" && is.APIVersion != apiVersion {
		argErrs = append(argErrs, argumentErrorAt(path.Child("apiVersion"), "must be %q or left out, is %q", apiVersion, is.APIVersion)...)
	}
	if is.Kind != "" && is.Kind != kind {
		return append(argErrs, argumentErrorAt(path.Child("kind"), "must be %q or left out, is %q", kind, is.Kind)...), false
	}
	return argErrs, true
}

// strictError converts a strict decoding error: an unknown field, or a duplicate one.
// arguments is the Go type, of which it suggests a field of a similar name.
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
