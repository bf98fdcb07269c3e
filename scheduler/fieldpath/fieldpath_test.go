package fieldpath

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestUndecodable(t *testing.T) {
	for name, c := range map[string]struct{ text, path, err string }{
		"nothing":                {text: `{"metadata":{"name":"p"}}`},
		"a label":                {text: `{"metadata":{"labels":{"a":1}}}`, path: "metadata.labels.a", err: "cannot unmarshal number"},
		"an annotation":          {text: `{"metadata":{"annotations":{"berth.dev/x":true}}}`, path: "metadata.annotations[berth.dev/x]", err: "cannot unmarshal bool"},
		"an item of a list":      {text: `{"spec":{"containers":[{"name":"c"},{"name":7}]}}`, path: "spec.containers[1].name", err: "cannot unmarshal number"},
		"a quantity":             {text: `{"spec":{"containers":[{"resources":{"requests":{"cpu":"two"}}}]}}`, path: "spec.containers[0].resources.requests.cpu", err: "quantities must match"},
		"the first of two":       {text: `{"spec":{"priority":"high"},"metadata":{"labels":{"b":1,"a":true}}}`, path: "metadata.labels.a", err: "cannot unmarshal bool"},
		"a time and a number":    {text: `{"spec":{"priority":"high"},"metadata":{"creationTimestamp":1}}`, path: "metadata.creationTimestamp", err: "cannot unmarshal number"},
		"an object for a string": {text: `{"metadata":{"name":{"first":"p"}}}`, path: "metadata.name", err: "cannot unmarshal object"},
		"a list for a string":    {text: `{"metadata":{"name":["p"]}}`, path: "metadata.name", err: "cannot unmarshal array"},
		"a whole text":           {text: `[]`, err: "cannot unmarshal array"},
		"no JSON":                {text: `{`, err: "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := Undecodable([]byte(c.text), &v1.Pod{})
			if path != c.path || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", path, err, c.path, c.err)
			}
		})
	}
}
