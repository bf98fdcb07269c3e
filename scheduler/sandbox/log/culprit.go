package log

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// culprit returns the path of the value in tree that keeps it from being read
// into a value like v. Decoders name the type that did not fit, and a quantity
// not even that; so values are left out one after the other, and the one
// without which the rest can be read is looked into.
func undecodablePath(tree any, v any) string {
	kind := reflect.TypeOf(v).Elem()
	readable := func() bool {
		text, err := json.Marshal(tree)
		return err == nil && json.Unmarshal(text, reflect.New(kind).Interface()) == nil
	}
	path := ""
	for at := tree; ; {
		step, below := undecodableChild(at, readable)
		if below == nil {
			return path
		}
		if path != "" && step[0] != '[' {
			path += "."
		}
		path += step
		at = below
	}
}

// guilty returns the step from at to the child without which all is readable,
// and that child; nil when it is at itself.
func undecodableChild(at any, readable func() bool) (step string, child any) {
	switch at := at.(type) {
	case map[string]any:
		for _, key := range sets.List(sets.KeySet(at)) {
			value := at[key]
			delete(at, key)
			ok := readable()
			at[key] = value
			if ok && value != nil {
				return key, value
			}
		}
	case []any:
		for i, value := range slices.Clone(at) {
			at[i] = nil
			ok := readable()
			at[i] = value
			if ok && value != nil {
				return fmt.Sprintf("[%d]", i), value
			}
		}
	}
	return "", nil
}
