package upstreamconfig

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// decode reads JSON into a configuration as strictly as kube-scheduler does: each
// unknown or double field is a fault.
func decode(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return Errors{fmt.Sprintf("is not in shape: %v", err)}
	}
	var found Errors
	for _, e := range strict {
		var at kjson.FieldError
		if errors.As(e, &at) {
			what, _, _ := strings.Cut(e.Error(), " \"") // which repeats the path
			found.add(field.NewPath(at.FieldPath()), "%s", what)
			continue
		}
		found = append(found, e.Error())
	}
	return found.err()
}
