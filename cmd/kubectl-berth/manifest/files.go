package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxFileBytes is the most bytes of standard input that are read. The API server accepts 3
// MiB.
const maxFileBytes = 16 << 20

// rawDocument is one YAML document of a file.
type rawDocument struct {
	// source is the file, and the number of the document if the file has several.
	source string
	object *unstructured.Unstructured
	err    error
}

// readDocuments reads files, the .yaml, .yml and .json files of directories, and standard
// input for "-". It returns an error for a file that cannot be read; errors of a document
// are in the document.
func readDocuments(names []string, in io.Reader) ([]rawDocument, error) {
	var all []rawDocument
	for _, name := range names {
		if name == "-" {
			text, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
			if err == nil && len(text) > maxFileBytes {
				err = fmt.Errorf("must be at most %d MiB: select files with -f", maxFileBytes>>20)
			}
			if err != nil {
				return nil, fmt.Errorf("reading standard input: %w", err)
			}
			all = append(all, splitDocuments("standard input", text)...)
			continue
		}
		files, err := manifestFiles(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, splitDocuments(file, text)...)
		}
	}
	return all, nil
}

// manifestFiles returns a file itself, or the files in a directory, sorted by name.
func manifestFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-f: the path %q does not exist", name)
	}
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("-f: directory %s contains no .yaml, .yml or .json file", name)
	}
	return files, err
}

// splitDocuments reads the documents of a file. A List is replaced by its items.
func splitDocuments(file string, text []byte) []rawDocument {
	var found []rawDocument
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			found = append(found, rawDocument{err: err})
			break
		}
		object, err := decodeDocument(part)
		switch {
		case err != nil:
			found = append(found, rawDocument{err: err})
		case object == nil: // only comments
		case object.IsList():
			err := object.EachListItem(func(item runtime.Object) error {
				found = append(found, rawDocument{object: item.(*unstructured.Unstructured)})
				return nil
			})
			if err != nil {
				found = append(found, rawDocument{err: err})
			}
		default:
			found = append(found, rawDocument{object: object})
		}
	}
	for i := range found {
		found[i].source = file
		if len(found) > 1 {
			found[i].source = fmt.Sprintf("%s, document %d", file, i+1)
		}
	}
	return found
}

// decodeDocument reads one document; nil for an empty one. A duplicate key is an error, as
// it is for kubectl.
func decodeDocument(part []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSONStrict(part)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	if text[0] != '{' {
		return nil, errors.New("must be an object with apiVersion, kind, metadata and spec")
	}
	object := &unstructured.Unstructured{}
	// UnmarshalJSON makes whole numbers int64, as the API server does.
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return object, nil
}

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
