package compile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// wrongType converts a decoding error about a value of the wrong type. JSON's own error
// names a field without its index in a list, so wrongType looks the position up in the
// text. rest is the text with null in place of the value; nil where err is about
// something else.
func wrongType(text []byte, err error, path *field.Path) (p argumentError, rest []byte) {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return argumentError{path: path.String(), detail: err.Error()}, nil
	}
	where, begins := locateValue(text, mismatch.Offset)
	p = argumentError{
		path:   path.String() + where,
		detail: DescribeWrongType(mismatch),
	}
	var value json.RawMessage
	if begins == 0 || json.NewDecoder(bytes.NewReader(text[begins:])).Decode(&value) != nil {
		return p, nil
	}
	return p, slices.Concat(text[:begins], []byte("null"), text[begins+len(value):])
}

// DescribeWrongType says in the terms of YAML what a value is and what it must be.
func DescribeWrongType(mismatch *json.UnmarshalTypeError) string {
	return fmt.Sprintf("wrong type: must be %s, is %s", typeName(mismatch.Type), withArticle(mismatch.Value))
}

// locateValue returns the path, such as .resources[0].weight, of the value at which a
// decoder stood after offset bytes: at the end of a string or number, or at the
// beginning of a list or object. begins is where that value begins in text, which
// holds no white space.
func locateValue(text []byte, offset int64) (path string, begins int) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var above []jsonPosition
	for {
		begins = int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil {
			return "", 0
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			above = above[:len(above)-1]
			continue
		}
		if len(above) > 0 && above[len(above)-1].advance(token) {
			continue
		}
		if decoder.InputOffset() >= offset {
			return pathOf(above), begins + len(text[begins:]) - len(bytes.TrimLeft(text[begins:], ",:"))
		}
		if isDelim {
			above = append(above, jsonPosition{list: delim == '[', index: -1})
		}
	}
}

// fieldsAt returns the JSON names of the fields of the object at path within type t,
// such as scoringStrategy.resources[1]; none where that is not a struct.
func fieldsAt(t reflect.Type, path string) (names []string) {
	for name := range strings.SplitSeq(path, ".") {
		if name, _, _ = strings.Cut(name, "["); name == "" {
			continue
		}
		if t = structType(t); t == nil {
			return nil
		}
		at := slices.IndexFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return jsonName(f) == name })
		if at < 0 {
			return nil
		}
		t = reflect.VisibleFields(t)[at].Type
	}
	if t = structType(t); t == nil {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// structType returns the struct that t is, points to, or is a list of; nil for other
// types.
func structType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// jsonPosition is the position of a decoder in one list or object.
type jsonPosition struct {
	list  bool
	index int
	key   string
	// inValue says that the decoder has read the key and is at the value.
	inValue bool
}

// advance moves on by one token and reports whether the token was a key.
func (p *jsonPosition) advance(token json.Token) (isKey bool) {
	if p.list {
		p.index++
		return false
	}
	p.inValue = !p.inValue
	if p.inValue {
		p.key, _ = token.(string)
	}
	return p.inValue
}

func pathOf(above []jsonPosition) string {
	var path string
	for _, p := range above {
		if p.list {
			path += fmt.Sprintf("[%d]", p.index)
		} else {
			path += "." + p.key
		}
	}
	return path
}

// typeName names a Go type in the terms of YAML.
func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number (" + t.Kind().String() + ")"
}

// withArticle puts an article before the decoder's name of a JSON type.
func withArticle(value string) string {
	switch value {
	case "object", "array":
		return "an " + value
	case "bool":
		return "true or false"
	}
	return "a " + value
}
