// Package badinput holds invalid input, and the errors that Berth must return for it. Each
// file is one case: a comment, then documents that are applied in order. The last document
// is the invalid one.
//
//	# A description of what is wrong.
//	# expect: Accepted=False UnknownPlugin       a condition of the last document
//	# expect: refused                            or: the API server rejects it
//	# message: a part of the error message
//
// The tests of this package check the compiler's conditions. The integration suite applies
// every case to a real API server, by server-side apply.
package badinput

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed *.yaml
var files embed.FS

// Case is one file.
type Case struct {
	// Name is the name of the file without its extension.
	Name string
	// Description says what is wrong.
	Description string
	// Refused says that the API server must reject the last object. Otherwise Condition
	// must become False, with Reason.
	Refused   bool
	Condition string
	Reason    string
	// Message is a part of the condition's message, or of the API server's error.
	Message string
	// Objects are the documents, in order; the last one is invalid.
	Objects []*unstructured.Unstructured
}

// Bad returns the invalid object.
func (c Case) Bad() *unstructured.Unstructured { return c.Objects[len(c.Objects)-1] }

// Cases returns all cases, sorted by name. The error names a file that does not have the
// form above.
func Cases() ([]Case, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		c.Name = strings.TrimSuffix(entry.Name(), ".yaml")
		cases = append(cases, c)
	}
	return cases, nil
}

var condition = regexp.MustCompile(`^([A-Za-z]+)=False ([A-Za-z]+)$`)

func parse(text []byte) (Case, error) {
	var c Case
	var expected bool
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			break
		}
		comment = strings.TrimSpace(comment)
		if verdict, ok := strings.CutPrefix(comment, "expect: "); ok {
			expected = true
			if c.Refused = verdict == "refused"; c.Refused {
				continue
			}
			parts := condition.FindStringSubmatch(verdict)
			if parts == nil {
				return c, fmt.Errorf("expect must be \"refused\" or \"<condition>=False <reason>\", is %q", verdict)
			}
			c.Condition, c.Reason = parts[1], parts[2]
		} else if message, ok := strings.CutPrefix(comment, "message: "); ok {
			c.Message = message
		} else {
			c.Description = strings.TrimSpace(c.Description + " " + comment)
		}
	}
	if !expected || c.Message == "" || c.Description == "" {
		return c, errors.New("the comment at the top must hold a sentence, expect and message")
	}
	var err error
	c.Objects, err = decode(text)
	return c, err
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case err == nil && len(object.Object) == 0:
			continue // comments alone
		case errors.Is(err, io.EOF) && len(objects) == 0:
			return nil, errors.New("there is no document")
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		}
		objects = append(objects, object)
	}
}
