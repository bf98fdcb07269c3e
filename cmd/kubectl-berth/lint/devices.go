package lint

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// deviceObject is a ResourceClaim, a ResourceClaimTemplate or a DeviceClass, of which lint
// compiles the CEL expressions.
type deviceObject struct {
	title  string
	errors []string
}

// deviceObjectOf validates a document about devices; nil if it is of another kind.
func deviceObjectOf(d manifest.Document) *deviceObject {
	if d.Object.GroupVersionKind().GroupVersion() != resourceapi.SchemeGroupVersion {
		return nil
	}
	found := &deviceObject{title: fmt.Sprintf("%s: %s/%s", d.Source, d.Object.GetKind(), d.Object.GetName())}
	spec := field.NewPath("spec")
	var errs field.ErrorList
	var err error
	read := func(into any) bool {
		err = manifest.Decode(d.Object, into)
		return err == nil
	}
	switch d.Object.GetKind() {
	case "ResourceClaim":
		if claim := (&resourceapi.ResourceClaim{}); read(claim) {
			errs = validateClaim(&claim.Spec, spec)
		}
	case "ResourceClaimTemplate":
		if template := (&resourceapi.ResourceClaimTemplate{}); read(template) {
			errs = validateClaim(&template.Spec.Spec, spec.Child("spec"))
		}
	case "DeviceClass":
		if class := (&resourceapi.DeviceClass{}); read(class) {
			errs = validateSelectors(class.Spec.Selectors, spec.Child("selectors"))
		}
	default:
		return nil
	}
	if err != nil {
		found.errors = append(found.errors, err.Error())
	}
	for _, e := range errs {
		found.errors = append(found.errors, e.Error())
	}
	return found
}

func (d *deviceObject) String() string {
	if len(d.errors) == 0 {
		return show.Wrap(d.title+" is valid", "", "    ") + "\n"
	}
	text := show.Wrap(d.title+" would be rejected by the API server:", "", "    ") + "\n"
	for _, fault := range d.errors {
		text += show.Wrap(fault, "  ", "  ") + "\n"
	}
	return text
}

// validateClaim validates the selectors of all requests, and of their alternatives.
func validateClaim(claim *resourceapi.ResourceClaimSpec, path *field.Path) (errs field.ErrorList) {
	for i := range claim.Devices.Requests {
		request, at := &claim.Devices.Requests[i], path.Child("devices", "requests").Index(i)
		if request.Exactly != nil {
			errs = append(errs, validateSelectors(request.Exactly.Selectors, at.Child("exactly", "selectors"))...)
		}
		for j := range request.FirstAvailable {
			errs = append(errs, validateSelectors(request.FirstAvailable[j].Selectors, at.Child("firstAvailable").Index(j).Child("selectors"))...)
		}
	}
	return errs
}

// validateSelectors compiles CEL expressions as the API server does.
func validateSelectors(selectors []resourceapi.DeviceSelector, path *field.Path) (errs field.ErrorList) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}) // the default of Kubernetes 1.37
	for i := range selectors {
		at := path.Index(i).Child("cel", "expression")
		if selectors[i].CEL == nil {
			errs = append(errs, field.Required(path.Index(i).Child("cel"), ""))
			continue
		}
		expression := selectors[i].CEL.Expression
		switch compiled := compiler.CompileCELExpression(expression, cel.Options{}); {
		case len(expression) > resourceapi.CELSelectorExpressionMaxLength:
			errs = append(errs, field.TooLong(at, expression, resourceapi.CELSelectorExpressionMaxLength))
		case compiled.Error != nil:
			// The lines after the first one show the expression again.
			detail, _, _ := strings.Cut(compiled.Error.Detail, "\n")
			errs = append(errs, field.Invalid(at, expression, detail))
		case compiled.MaxCost > resourceapi.CELSelectorExpressionMaxCost:
			errs = append(errs, field.Forbidden(at, "too complex, exceeds cost limit"))
		}
	}
	return errs
}
