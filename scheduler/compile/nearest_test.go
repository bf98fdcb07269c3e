package compile

import "testing"

func TestSuggest(t *testing.T) {
	plugins := []string{"NodeName", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "SchedulingGates", "PodTopologySpread", "ImageLocality"}
	for sentence, c := range map[string]struct {
		name string
		of   []string
		want string
	}{
		"a letter is missing":                         {"NodeResourceFit", plugins, "NodeResourcesFit"},
		"the case is another":                         {"imagelocality", plugins, "ImageLocality"},
		"two letters are swapped":                     {"bacth", []string{"night", "batch"}, "batch"},
		"a long name may have three edits":            {"PodTopologieSpredd", plugins, "PodTopologySpread"},
		"a plugin of somebody else's is none of ours": {"Coscheduling", plugins, ""},
		"a name that goes on is a guess":              {"NodeResources", plugins, "NodeResourcesFit"},
		"a name that goes on for long is none":        {"PodTopology", plugins, ""},
		"a short name has one edit":                   {"gpu", []string{"cpu", "gnu"}, "cpu"},
		"two edits of a short name are too many":      {"web", []string{"job"}, ""},
		"there is nothing to guess":                   {"batch", nil, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
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
