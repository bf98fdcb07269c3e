package decision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAnnotationCanBeParsed(t *testing.T) {
	want := Decision{
		Result: Bound, Profile: "batch", Generation: 7, Hash: "9f3c1a2b4d", Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2,
		Walk: Walk{Seq: 812, Start: 57, Order: 4294967295, Nodes: 1234, Pods: 18446744073709551615},
		Top:  []NodeScore{{Node: "n17", Score: 587, Plugins: map[string]int64{"NodeResourcesFit": 440}}, {Node: "n4", Score: 12}},
	}
	got, err := ParseAnnotation(Annotation(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnnotationDetail(t *testing.T) {
	d := Decision{
		Profile: "batch", Generation: 7, Hash: "9f3c1a2b4d", Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2,
		Walk: Walk{Seq: 812, Start: 57, Order: 9, Nodes: 1234, Pods: 5678}, Top: []NodeScore{{Node: "n4", Score: 12}},
	}
	const walk = `"attempts":2,"walk":{"seq":812,"start":57,"order":9,"nodes":1234,"pods":5678}`
	const begin = `{"v":1,"profile":"batch","generation":7,"hash":"9f3c1a2b4d","epoch":3,"node":"n17",`
	for detail, c := range map[string]struct {
		d    Decision
		want string
	}{
		"Nodes":   {d, begin + `"evaluated":500,"feasible":412,` + walk + `,"top":[{"node":"n4","score":12}]}`},
		"Reasons": {d.WithoutNodes(), begin + walk + `}`},
	} {
		if diff := cmp.Diff(c.want, Annotation(c.d)); diff != "" {
			t.Errorf("detail: %s (-want +got):\n%s", detail, diff)
		}
	}
}

func TestParseAnnotationErrors(t *testing.T) {
	for sentence, text := range map[string]string{
		"it is empty":                     "",
		"it is no JSON":                   "n17",
		"it is of another shape":          `{"v":"one"}`,
		"it is of a version to come":      `{"v":2,"profile":"batch"}`,
		"it is JSON of something else":    `{"profile":"batch"}`,
		"it is a list where an object is": `[]`,
	} {
		t.Run(sentence, func(t *testing.T) {
			if d, err := ParseAnnotation(text); err == nil {
				t.Errorf("taken as %+v", d)
			}
		})
	}
}
