package crashes

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/test/support/faultproxy"
)

func TestRequestsAreParsed(t *testing.T) {
	for path, want := range map[string]request{
		"/api/v1/namespaces/shop/pods/web/status":                                {resource: "pods/status", namespace: "shop", name: "web"},
		"/api/v1/namespaces/shop/pods":                                           {resource: "pods", namespace: "shop"},
		"/api/v1/namespaces/shop":                                                {resource: "namespaces", name: "shop"},
		"/api/v1/persistentvolumes/v0":                                           {resource: "persistentvolumes", name: "v0"},
		"/apis/berth.dev/v1alpha1/schedulingprofiles/batch/status":               {resource: "schedulingprofiles/status", name: "batch"},
		"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth-lock": {resource: "leases", namespace: "berth-system", name: "berth-lock"},
		"/version": {},
	} {
		got := requestOf(faultproxy.Write{Method: http.MethodPut, Path: path})
		want.method = http.MethodPut
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(request{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestWritesAreNamedByTheFirstRowThatMatches(t *testing.T) {
	scenario := &scenario{name: preemption, also: []string{journalName}}
	trigger := newTrigger(scenario, "cell0007x", nil)
	for sentence, c := range map[string]struct {
		is   request
		want string
	}{
		"a row with a marker in the body":          {request{method: http.MethodPatch, resource: "pods/status", namespace: "cell0007x", body: []byte("DisruptionTarget")}, "PATCH pods/status with DisruptionTarget"},
		"another marker":                           {request{method: http.MethodPatch, resource: "pods/status", namespace: "cell0007x", body: []byte("nominatedNodeName")}, "PATCH pods/status with nominatedNodeName"},
		"a row without a marker":                   {request{method: http.MethodPost, resource: "pods/binding", namespace: "cell0007x"}, "POST pods/binding"},
		"no row":                                   {request{method: http.MethodPost, resource: "events", body: []byte("cell0007x")}, "POST events"},
		"an object that belongs to every scenario": {request{method: http.MethodPut, resource: "configmaps", name: journalName}, "PUT configmaps"},
		"another scenario":                         {request{method: http.MethodPost, resource: "pods/binding", namespace: "cell0008x"}, ""},
		"a question":                               {request{method: http.MethodPost, resource: "subjectaccessreviews", body: []byte("cell0007x")}, ""},
	} {
		if got := trigger.label(c.is); got != c.want {
			t.Errorf("%s: %q, want %q", sentence, got, c.want)
		}
	}
}

func TestPartsCoverAllCellsOnce(t *testing.T) {
	cells := make([]Cell, 11)
	for i := range cells {
		cells[i].Nth = i
	}
	seen := map[int]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		some, err := partOf(cells, part)
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range some {
			seen[cell.Nth]++
		}
	}
	for i := range cells {
		if seen[i] != 1 {
			t.Errorf("cell %d is in %d parts", i, seen[i])
		}
	}
	for _, part := range []string{"", "0/2", "3/2", "x"} {
		if _, err := partOf(cells, part); err == nil {
			t.Errorf("part %q is accepted", part)
		}
	}
}
