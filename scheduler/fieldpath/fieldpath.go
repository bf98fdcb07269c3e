// Package fieldpath finds the value of a JSON text that an error of a decoder is about. Such an
// error names a Go type, sometimes a field, and for a quantity nothing at all.
package fieldpath

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Undecodable returns the path of the first value of text that cannot be decoded into a value
// like into, a pointer, and the error of decoding that value. Fields are in the order of their
// names. The error is nil if text can be decoded. The path is empty if text is not JSON, or if no
// part of it is what cannot be decoded.
func Undecodable(text []byte, into any) (path string, err error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return "", fmt.Errorf("is not JSON: %w", err)
	}
	kind := reflect.TypeOf(into).Elem()
	decode := func(part any) error {
		text, err := json.Marshal(part)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, reflect.New(kind).Interface())
	}
	if err = decode(tree); err != nil {
		path, err = search(tree, decode, err)
	}
	return strings.TrimPrefix(path, "."), err
}

// search returns the path within at of the value that decode, which is given at alone, fails
// for, and its error; whole is the error for at. Each value is decoded without the ones beside
// it, since these may have errors as well.
func search(at any, decode func(any) error, whole error) (path string, err error) {
	switch at := at.(type) {
	case map[string]any:
		if decode(map[string]any{}) != nil {
			return "", whole // it must not be an object
		}
		for _, key := range sets.List(sets.KeySet(at)) {
			child := func(value any) error { return decode(map[string]any{key: value}) }
			if err := child(at[key]); err != nil {
				below, err := search(at[key], child, err)
				return step(key) + below, err
			}
		}
	case []any:
		if decode([]any{}) != nil {
			return "", whole
		}
		for i, value := range at {
			child := func(value any) error { return decode([]any{value}) }
			if err := child(value); err != nil {
				below, err := search(value, child, err)
				return fmt.Sprintf("[%d]", i) + below, err
			}
		}
	}
	return "", whole
}

// step returns the step of a path to a key. One that is no name of a field, such as the key of
// an annotation, is in brackets, as the API server writes it.
func step(key string) string {
	if strings.ContainsAny(key, "./") {
		return "[" + key + "]"
	}
	return "." + key
}
