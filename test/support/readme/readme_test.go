package readme

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

func TestNamesOfAText(t *testing.T) {
	spec := func(table, leaf string) types.SpecReport {
		return types.SpecReport{LeafNodeType: types.NodeTypeIt, ContainerHierarchyTexts: []string{table}, LeafNodeText: leaf}
	}
	report := types.Report{SpecReports: types.SpecReports{spec("A pod", "goes anywhere"), spec("A pod", "waits"), spec("A node", "comes")}}
	text := "## one\n| `A pod goes anywhere`, `A pod … waits`, `test/exactness/oracle`, and `-ginkgo.v` |\n\n## two\n| `A pod flies` |\n"
	if diff := cmp.Diff([]string{"A pod flies"}, UnknownNames(text, report)); diff != "" {
		t.Errorf("unknown names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A node"}, UnnamedContainers(text, report)); diff != "" {
		t.Errorf("unnamed (-want +got):\n%s", diff)
	}
	two, rest := Section(text, "two")
	if diff := cmp.Diff([]string{"A pod flies"}, UnknownNames(two, report)); diff != "" {
		t.Errorf("unknown names in the section (-want +got):\n%s", diff)
	}
	if unknown := UnknownNames(rest, report); len(unknown) > 0 {
		t.Errorf("unknown names in the rest: %q", unknown)
	}
	if none, all := Section(text, "three"); none != "" || all != text {
		t.Errorf("a section that does not exist: %q, %q", none, all)
	}
}
