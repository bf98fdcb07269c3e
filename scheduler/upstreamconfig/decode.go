package upstreamconfig

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// decode decodes JSON into a configuration as strictly as kube-scheduler: an unknown or
// duplicate field is an error.
func decode(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return Errors{fmt.Sprintf("is invalid: %v", err)}
	}
	var errs Errors
	for _, e := range strict {
		var at kjson.FieldError
		if errors.As(e, &at) {
			what, _, _ := strings.Cut(e.Error(), " \"") // the part after it repeats the path
			errs.add(field.NewPath(at.FieldPath()), "%s", what)
			continue
		}
		errs = append(errs, e.Error())
	}
	return errs.err()
}
