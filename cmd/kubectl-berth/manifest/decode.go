package manifest

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fieldpath"
)

// Decode decodes an object into a pointer to its Go type as strictly as kubectl apply. The error
// names the unknown fields, or a field whose value cannot be decoded.
func Decode(object *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return locateError(text, into, err)
	}
	if len(strict) > 0 {
		return runtime.NewStrictDecodingError(strict)
	}
	return nil
}

// locateError returns the error about the value that cannot be decoded, with its path. err is
// that of the decoder.
func locateError(text []byte, into any, err error) error {
	path, found := fieldpath.Undecodable(text, into)
	if found == nil || path == "" {
		return err
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(found, &mismatch) {
		return fmt.Errorf("%s: %s", path, compile.DescribeWrongType(mismatch))
	}
	return fmt.Errorf("%s: %w", path, found)
}
