package manifest

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Document is a document of any kind.
type Document struct {
	// Source is the file, and the number of the document if the file has several.
	Source string
	Object *unstructured.Unstructured
}

// ReadAny reads the documents of files, directories and, for "-", in. They may have any
// kind. The error begins with flag and names the document.
func ReadAny(flag string, names []string, in io.Reader) ([]Document, error) {
	found, err := readDocuments(names, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "-f: "))
	}
	return asDocuments(flag+": ", found)
}

// ParseText reads the documents of a text. Errors name it source.
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
