package manifest

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Document is a document of any kind.
type Document struct {
	// Source is the file, and where it has several documents, which.
	Source string
	Object *unstructured.Unstructured
}

// Any reads the documents of files, folders and, for "-", in, whatever their
// kinds. The error names flag, or the document that is not readable.
func Any(flag string, names []string, in io.Reader) ([]Document, error) {
	found, err := documents(names, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "-f: "))
	}
	return anyOf(flag+": ", found)
}

// Text reads the documents of a text, which the error names source.
func Text(source, text string) ([]Document, error) { return anyOf("", split(source, []byte(text))) }

func anyOf(prefix string, found []document) ([]Document, error) {
	var all []Document
	for _, d := range found {
		if d.err != nil {
			return nil, fmt.Errorf("%s%s: %w", prefix, d.source, d.err)
		}
		if d.object.GetKind() == "" || d.object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("%s%s: apiVersion and kind: Required value", prefix, d.source)
		}
		all = append(all, Document{Source: d.source, Object: d.object})
	}
	return all, nil
}
