package log

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes/scheme"
)

// WriteAll writes ops as a log.
func WriteAll(w io.Writer, ops []Op) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for i, op := range ops {
		object, err := withKind(op.Object)
		if err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
		if err := encoder.Encode(entry{Op: op.Kind, Start: op.Start, Object: text}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// withKind returns the object with its kind written in, which typed objects
// leave out; object stays as it is.
func withKind(object Object) (Object, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	kind := object.DeepCopyObject().(Object)
	kind.GetObjectKind().SetGroupVersionKind(kinds[0])
	return kind, nil
}
