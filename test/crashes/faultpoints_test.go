package crashes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/test/support/controlplane"
)

// A write that is added to the code needs a scenario with crashes before and after it.
func TestEachWriteHasAScenario(t *testing.T) {
	points, err := faultPoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[FaultPoint]bool{}
	for _, row := range Rows {
		rows[row.Point] = true
		if _, err := scenarioOf(row.Scenario); err != nil && row.Why == "" {
			t.Errorf("%s: the row says neither a scenario nor why none reaches it", row.Point)
		}
		if row.Scenario != "" && (row.resource() == "" || methods[row.Point.Verb] == "") {
			t.Errorf("%s: the row says neither resource nor method of the request", row.Point)
		}
	}
	for _, point := range points {
		if !rows[point] {
			t.Errorf("%s: this write has no row in rows.go: which scenario reaches it?", point)
		}
		delete(rows, point)
	}
	for point := range rows {
		t.Errorf("%s: rows.go has a row for it, and there is no such write", point)
	}
}

// The analysis finds the writes of a package by clients of each kind, and nothing else.
func TestWritesAreFound(t *testing.T) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	_, exports, err := listPackages(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	finder := newWriteFinder("testdata", exports)
	if err := finder.addPackage(listedPackage{ImportPath: "example.com/writes", Dir: "testdata", GoFiles: []string{"writes.go"}}); err != nil {
		t.Fatal(err)
	}
	point := func(function, verb, resource string) FaultPoint {
		return FaultPoint{File: "writes.go", Function: function, Verb: verb, Resource: resource, Index: 1}
	}
	want := []FaultPoint{
		point("typed", "Create", "pods"), second(point("typed", "Create", "pods")), point("typed", "Patch", "pods/status"), point("typed", "UpdateStatus", "resourceclaims/status"),
		point("typed", "Bind", "pods/binding"), point("typed", "EvictV1", "pods/eviction"), point("typed", "DeleteCollection", "networkpolicies"),
		point("(embedded).update", "Update", "leases"),
		point("untyped", "Patch", "resources"), point("untyped", "Delete", "resources"),
		point("request", "Create", "things/status"), point("request", "Delete", ""),
		point("generic", "Create", "pods"), point("generic", "Apply", ""), point("generic", "Update", "pods/status"), point("generic", "DeleteAllOf", "pods"),
		point("lock", "Update", "leases"),
		point("value", "Delete", "nodes"),
	}
	if diff := cmp.Diff(want, finder.points); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
