package explainer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// fieldSchema is a part of the schema of a kind: a field, or the items of a list.
type fieldSchema struct {
	MaxLength  *int                   `json:"maxLength"`
	MaxItems   *int                   `json:"maxItems"`
	Required   []string               `json:"required"`
	Properties map[string]fieldSchema `json:"properties"`
	Items      *fieldSchema           `json:"items"`
}

// statusSchema returns the schema of the status of a SchedulingDecision.
func statusSchema(f *testing.F) fieldSchema {
	f.Helper()
	text, err := os.ReadFile("../../config/crd/bases/berth.dev_schedulingdecisions.yaml")
	if err != nil {
		f.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema fieldSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		f.Fatal(err)
	}
	status, ok := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if !ok || status.Properties["message"].MaxLength == nil {
		f.Fatal("the schema has no status with a bounded message")
	}
	return status
}

// check returns the first field of a value that exceeds the schema; lists do not count that
// are as long as in the explanation, which bounds them.
func (s fieldSchema) check(path string, value any) string {
	switch value := value.(type) {
	case string:
		if s.MaxLength != nil && utf8.RuneCountInString(value) > *s.MaxLength {
			return path + " is too long"
		}
	case []any:
		for _, item := range value {
			if wrong := s.Items.check(path+"[]", item); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		for _, name := range s.Required {
			if field, ok := value[name]; !ok || field == nil {
				return path + "." + name + " is missing"
			}
		}
		for name, field := range value {
			if wrong := s.Properties[name].check(path+"."+name, field); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// FuzzStatus writes any explanation: plugins and extenders give its reasons, and an object
// that an earlier version wrote may hold anything. What is written has the bounds of the
// schema and of etcd, names no node where it must not, and is written the same again.
func FuzzStatus(f *testing.F) {
	for _, text := range []string{
		`{"result":"Unschedulable","profile":{"name":"batch","generation":6,"hash":"9f3c1a2b4d"},"message":"0/500 nodes are available","nodes":{"total":500,"evaluated":500,"feasible":0,"summary":"0/500"},
"rejections":[{"plugin":"NodeResourcesFit","code":"Unschedulable","reason":"Insufficient cpu","nodes":480,"exampleNode":"secret-node"}],
"closestNodes":[{"node":"secret-node","missing":[{"resource":"cpu","requested":"4","free":"3500m"}]},{"node":"other","missing":null}],
"queue":{"where":"Unschedulable","since":"2026-03-01T11:57:00Z"},"requeueEvents":[{"plugin":"NodeResourcesFit","events":["Node/Add"]},{"plugin":"x","events":null}],"lastChange":"2026-03-01T11:57:00Z"}`,
		`{"group":{"name":"train"},"deviceRequests":[{"claim":"gpu","request":"r","published":3,"selectors":[{"source":"Class","expression":"true","matching":1}],"free":0}],"preemption":{"outcome":"NoCandidates"}}`,
		`{"message":"` + strings.Repeat("<ü", 3000) + `","blockedBy":"` + strings.Repeat("\\u0001", 1100) + `"}`,
		`{}`,
	} {
		f.Add([]byte(text), true, uint16(0))
		f.Add([]byte(text), false, uint16(2000))
	}
	bounds := statusSchema(f)
	f.Fuzz(func(t *testing.T, text []byte, nodes bool, times uint16) {
		e := &decision.Explanation{Nodes: nodes}
		if len(text) > 16<<10 || json.Unmarshal(text, &e.Status) != nil {
			return
		}
		e.Status.Message = strings.Repeat(e.Status.Message, 1+int(times)%64)
		for i := range e.Status.Rejections {
			e.Status.Rejections[i].ExampleNode = "secret-node"
		}
		before := e.Status.DeepCopy()
		s := statusOf(e, startTime)
		if diff := cmp.Diff(before, &e.Status); diff != "" {
			t.Fatalf("the explanation was changed:\n%s", diff)
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		short := len(e.Status.Rejections) <= v1alpha1.MaxReasons && len(e.Status.RequeueEvents) <= v1alpha1.MaxReasons && len(e.Status.ClosestNodes) <= v1alpha1.MaxClosestNodes
		if short && len(written) > maxObjectSize {
			t.Fatalf("%d bytes, want at most %d", len(written), maxObjectSize)
		}
		var plain map[string]any
		if err := json.Unmarshal(written, &plain); err != nil {
			t.Fatal(err)
		}
		if wrong := bounds.check("status", plain); wrong != "" {
			t.Fatalf("%s: %s", wrong, written)
		}
		if !nodes && slices.ContainsFunc(s.Rejections, func(r v1alpha1.Rejection) bool { return r.ExampleNode != "" }) {
			t.Fatalf("a node is named: %s", written)
		}
		if diff := cmp.Diff(s, statusOf(&decision.Explanation{Nodes: nodes, Status: s}, startTime)); diff != "" {
			t.Fatalf("written again (-first,+second):\n%s", diff)
		}
	})
}
