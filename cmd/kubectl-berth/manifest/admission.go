package manifest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/config/crd"
	"github.com/berthdev/berth/scheduler/compile"
)

// crdKind is what the API server knows of a kind of Berth.
type crdKind struct {
	// definition is the name of the CustomResourceDefinition.
	definition string
	namespaced bool
	schema     *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator
}

// crdKinds are the kinds of the CustomResourceDefinitions that this plugin was built with,
// by name.
var crdKinds = sync.OnceValues(func() (map[string]crdKind, error) {
	files, err := crd.Bases.ReadDir("bases")
	if err != nil {
		return nil, err
	}
	all := map[string]crdKind{}
	for _, file := range files {
		text, err := crd.Bases.ReadFile("bases/" + file.Name())
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		known, err := newCRDKind(definition.Spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		known.definition = definition.Name
		all[definition.Spec.Names.Kind] = known
	}
	return all, nil
})

// Definitions returns the names of the CustomResourceDefinitions that this plugin was built
// with.
func Definitions() ([]string, error) {
	known, err := crdKinds()
	var names []string
	for _, k := range known {
		names = append(names, k.definition)
	}
	slices.Sort(names)
	return names, err
}

func newCRDKind(spec apiextensionsv1.CustomResourceDefinitionSpec) (crdKind, error) {
	schema := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(spec.Versions[0].Schema.OpenAPIV3Schema, schema, nil); err != nil {
		return crdKind{}, err
	}
	structural, err := structuralschema.NewStructural(schema)
	if err != nil {
		return crdKind{}, err
	}
	values, _, err := validation.NewSchemaValidator(schema)
	return crdKind{
		namespaced: spec.Scope == apiextensionsv1.NamespaceScoped, schema: structural,
		values: values, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, err
}

// admit does what the API server does before it stores an object: it sets defaults and
// validates. It returns the errors. old is the object that is replaced; nil for a new one.
func (k crdKind) admit(ctx context.Context, object, old *unstructured.Unstructured) []string {
	delete(object.Object, "status") // users cannot write the status
	unknown, err := pruneMetadata(object)
	if err != nil {
		return []string{err.Error()} // the API server cannot decode it, and validates nothing
	}
	messages := k.pruneUnknown(object, unknown)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, k.schema)
	defaulting.Default(object.Object, k.schema)

	errs := metavalidation.ValidateObjectMetaAccessor(object, k.namespaced, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, k.values)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.schema, object.Object)...)
	// CEL rules may fail on values of the wrong type, so the API server evaluates them later.
	if k.rules != nil && !slices.ContainsFunc(errs, preventsRules) {
		var before any
		if old != nil {
			before = old.Object
		}
		violations, _ := k.rules.Validate(ctx, nil, k.schema, object.Object, before, math.MaxInt64)
		errs = append(errs, violations...)
	}
	for _, err := range errs {
		messages = append(messages, strings.TrimPrefix(err.Error(), "<nil>: ")) // the path of the object itself
	}
	return messages
}

// preventsRules reports whether the API server does not evaluate CEL rules after this error.
func preventsRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}

// pruneMetadata removes the unknown fields of the metadata and returns their paths. The schema
// of a kind has no fields of the metadata.
func pruneMetadata(object *unstructured.Unstructured) (unknown []string, err error) {
	read, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		// This error does not name the field.
		return nil, cmp.Or(Decode(object, &metav1.PartialObjectMetadata{}), err)
	}
	if !found {
		return nil, nil
	}
	return unknown, objectmeta.SetObjectMeta(object.Object, read)
}

// pruneUnknown removes the fields that the kind does not have, and returns an error for each,
// and for those at the paths metadata: kubectl rejects them.
func (k crdKind) pruneUnknown(object *unstructured.Unstructured, metadata []string) []string {
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	paths := slices.Concat(metadata, pruning.PruneWithOptions(object.Object, k.schema, true, options))
	var messages []string
	for _, path := range paths {
		message := path + ": unknown field"
		above, name := path[:strings.LastIndex(path, ".")+1], path[strings.LastIndex(path, ".")+1:]
		if near := compile.Suggest(name, fieldNamesAt(k.schema, above)); near != "" {
			message += fmt.Sprintf(", did you mean %q?", near)
		}
		messages = append(messages, message)
	}
	return messages
}

// metadataFields returns the names of the fields of the metadata of any object.
func metadataFields() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[metav1.ObjectMeta]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// fieldNamesAt returns the names of the fields that an object at the path above may have.
func fieldNamesAt(s *structuralschema.Structural, above string) []string {
	if above == "metadata." {
		return metadataFields()
	}
	for name := range strings.SplitSeq(strings.Trim(above, "."), ".") {
		name, _, list := strings.Cut(name, "[")
		if name != "" {
			child, known := s.Properties[name]
			if !known {
				return nil
			}
			s = &child
		}
		if list && s.Items != nil {
			s = s.Items
		}
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
