package compile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// wrongType tells a decoding error that is about a value. JSON's own error
// names the field without the index in its list, so the place is looked up in
// the text.
func wrongType(text []byte, err error, path *field.Path) problem {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return problem{path: path.String(), detail: err.Error()}
	}
	return problem{
		path:   path.String() + placeOf(text, mismatch.Offset),
		detail: fmt.Sprintf("wrong type: must be %s, is %s", kindOf(mismatch.Type), article(mismatch.Value)),
	}
}

// placeOf returns the path, such as .resources[0].weight, of the value at whose
// end (of a word or number) or beginning (of a list or object) the decoder
// stood when it had read offset bytes.
func placeOf(text []byte, offset int64) string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var above []place
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			above = above[:len(above)-1]
			continue
		}
		if len(above) > 0 && above[len(above)-1].take(token) {
			continue
		}
		if decoder.InputOffset() >= offset {
			return join(above)
		}
		if isDelim {
			above = append(above, place{list: delim == '[', index: -1})
		}
	}
}

// place is how far a reader has come in one list or object.
type place struct {
	list  bool
	index int
	key   string
	// inValue says that an object's key was read and its value is next.
	inValue bool
}

// take moves on by one token; it reports true when the token was a key.
func (p *place) take(token json.Token) (isKey bool) {
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

func join(above []place) string {
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

// kindOf names a Go type in the words of someone who writes YAML.
func kindOf(t reflect.Type) string {
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

// article gives the decoder's word for a JSON value its article.
func article(value string) string {
	switch value {
	case "object", "array":
		return "an " + value
	case "bool":
		return "true or false"
	}
	return "a " + value
}
