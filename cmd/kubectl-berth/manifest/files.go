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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxDocument bounds one file, in bytes: the API server takes 3 MiB.
const maxFileBytes = 16 << 20

// document is one YAML document of a file.
type rawDocument struct {
	// source is the file and, where it has several, which document.
	source string
	object *unstructured.Unstructured
	err    error
}

// documents reads files, the .yaml, .yml and .json files of folders, and
// standard input for "-". The error is of a file that cannot be read; what is in
// it is each document's.
func readDocuments(names []string, in io.Reader) ([]rawDocument, error) {
	var all []rawDocument
	for _, name := range names {
		if name == "-" {
			text, err := io.ReadAll(io.LimitReader(in, maxFileBytes))
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

// filesOf is a file itself, or what a folder holds, by name.
func manifestFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-f: there is no file or folder %s", name)
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
		err = fmt.Errorf("-f: folder %s holds no .yaml, .yml or .json file", name)
	}
	return files, err
}

// split reads the documents of a file; lists are taken apart.
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
		case object == nil: // comments alone
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

// decode reads one document; nil for an empty one. A key that is there twice is
// an error, as it is for kubectl.
func decodeDocument(part []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSONStrict(part)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	if text[0] != '{' {
		return nil, errors.New("is not an object: apiVersion, kind, metadata and spec are expected")
	}
	object := &unstructured.Unstructured{}
	// Numbers become int64 where they are whole, as in the API server.
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return object, nil
}
