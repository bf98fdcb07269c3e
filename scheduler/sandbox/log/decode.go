package log

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/berthdev/berth/scheduler/fieldpath"
)

// fieldError is an error in a JSON value, with the path of the field.
type fieldError struct{ path, detail string }

// decodeObject decodes a line's object. It sets defaults that the API server would have set
// and that are needed: a pod's namespace and UID, and the kind where it must be Pod.
func decodeObject(kind Kind, text []byte) (Object, *fieldError) {
	var is metav1.TypeMeta
	if fieldErr := decode(text, &is); fieldErr != nil {
		return nil, fieldErr.prefixed("object")
	}
	gvk := is.GroupVersionKind()
	if is.Kind == "" && kind == Schedule {
		gvk = v1.SchemeGroupVersion.WithKind("Pod")
	}
	if is.APIVersion == "" {
		gvk.Version = "v1"
	}
	object, fieldErr := newObject(kind, gvk)
	if fieldErr != nil {
		return nil, fieldErr
	}
	if fieldErr := decodeStrict(text, object); fieldErr != nil {
		return nil, fieldErr.prefixed("object")
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if object.GetName() == "" {
		return nil, &fieldError{"object.metadata.name", "is missing"}
	}
	pod, isPod := object.(*v1.Pod)
	if isPod && kind == Schedule && pod.Spec.NodeName != "" {
		return nil, &fieldError{"object.spec.nodeName", fmt.Sprintf("must be empty, is %q: the pod has its node", pod.Spec.NodeName)}
	}
	if isPod {
		setPodDefaults(pod)
	}
	return object, nil
}

func newObject(kind Kind, gvk schema.GroupVersionKind) (Object, *fieldError) {
	if gvk.Kind == "" {
		return nil, &fieldError{"object.kind", "is missing"}
	}
	empty, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, &fieldError{"object.kind", fmt.Sprintf("there is no %s in apiVersion %q", gvk.Kind, gvk.GroupVersion())}
	}
	object, ok := empty.(Object)
	if !ok {
		return nil, &fieldError{"object.kind", fmt.Sprintf("a %s is not an object of a cluster", gvk.Kind)}
	}
	if _, isPod := object.(*v1.Pod); !isPod && kind == Schedule {
		return nil, &fieldError{"object.kind", fmt.Sprintf("must be Pod, is %s: nothing else is scheduled", gvk.Kind)}
	}
	return object, nil
}

func setPodDefaults(pod *v1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
}

func (f *fieldError) prefixed(path string) *fieldError {
	if f.path == "" {
		return &fieldError{path, f.detail}
	}
	return &fieldError{path + "." + f.path, f.detail}
}

// decodeStrict decodes text into v; an unknown field is an error.
func decodeStrict(text []byte, v any) *fieldError {
	strict, err := kjson.UnmarshalStrict(text, v)
	if err != nil {
		return locateError(text, v, err)
	}
	if len(strict) == 0 {
		return nil
	}
	var at kjson.FieldError
	if !errors.As(strict[0], &at) {
		return &fieldError{"", strict[0].Error()}
	}
	what, _, _ := strings.Cut(strict[0].Error(), " \"") // the part after it repeats the path
	return &fieldError{at.FieldPath(), what}
}

// decode decodes text into v and ignores unknown fields.
func decode(text []byte, v any) *fieldError {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, v); err != nil {
		return locateError(text, v, err)
	}
	return nil
}

// locateError returns the path of the value that cannot be decoded, and its error. err is that of
// the decoder, which is stricter than the search.
func locateError(text []byte, v any, err error) *fieldError {
	path, found := fieldpath.Undecodable(text, v)
	if found == nil {
		found = err
	}
	return &fieldError{path, found.Error()}
}
