package compile

import "testing"

func TestSuggest(t *testing.T) {
	plugins := []string{"NodeName", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "SchedulingGates", "PodTopologySpread", "ImageLocality"}
	for name, c := range map[string]struct {
		name string
		of   []string
		want string
	}{
		"one letter is missing":                        {"NodeResourceFit", plugins, "NodeResourcesFit"},
		"the case differs":                             {"imagelocality", plugins, "ImageLocality"},
		"two letters are swapped":                      {"bacth", []string{"night", "batch"}, "batch"},
		"a long name may have three edits":             {"PodTopologieSpredd", plugins, "PodTopologySpread"},
		"an out-of-tree plugin resembles none of ours": {"Coscheduling", plugins, ""},
		"a candidate that is three letters longer":     {"NodeResources", plugins, "NodeResourcesFit"},
		"a candidate that is much longer":              {"PodTopology", plugins, ""},
		"a short name may have one edit":               {"gpu", []string{"cpu", "gnu"}, "cpu"},
		"two edits of a short name are too many":       {"web", []string{"job"}, ""},
		"there are no candidates":                      {"batch", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Suggest(c.name, c.of); got != c.want {
				t.Errorf("Nearest(%q) = %q, want %q", c.name, got, c.want)
			}
		})
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "bca", 2}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("edits(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
