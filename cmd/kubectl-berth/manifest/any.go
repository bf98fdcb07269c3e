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
func ReadAny(flag string, names []string, in io.Reader) ([]Document, error) {
	found, err := readDocuments(names, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "-f: "))
	}
	return asDocuments(flag+": ", found)
}

// Text reads the documents of a text, which the error names source.
func ParseText(source, text string) ([]Document, error) {
	return asDocuments("", splitDocuments(source, []byte(text)))
}

func asDocuments(prefix string, found []rawDocument) ([]Document, error) {
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
