package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryArgumentErrorIsReported(t *testing.T) {
	const args = "spec.pluginConfig[0].args."
	for name, c := range map[string]struct {
		plugin, given string
		want          map[string]string
	}{
		"values of the wrong type, unknown fields and values that the plugin rejects": {
			"InterPodAffinity", `{hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: maybe, x: 1, hardPodAffinityWeigth: 2}`,
			map[string]string{
				"ignorePreferredTermsOfExistingPods": "wrong type: must be true or false, is a string",
				"x":                                  "unknown field: the plugin has no such argument",
				"hardPodAffinityWeigth":              `unknown field: the plugin has no such argument, did you mean "hardPodAffinityWeight"?`,
			},
		},
		"a value that the plugin rejects and an unknown field": {
			"NodeResourcesFit", `{scoringStrategy: {type: Tightest}, x: 1}`,
			map[string]string{
				"x":                    "unknown field: the plugin has no such argument",
				"scoringStrategy.type": `Unsupported value: "Tightest": supported values: "LeastAllocated", "MostAllocated"`,
			},
		},
		"the apiVersion and fields of the wrong type": {
			"InterPodAffinity", `{apiVersion: example.com/v1, hardPodAffinityWeight: much, ignorePreferredTermsOfExistingPods: [1]}`,
			map[string]string{
				"apiVersion":                         `must be "kubescheduler.config.k8s.io/v1" or left out, is "example.com/v1"`,
				"hardPodAffinityWeight":              "wrong type: must be a whole number (int32), is a string",
				"ignorePreferredTermsOfExistingPods": "wrong type: must be true or false, is an array",
			},
		},
		"an apiVersion that is not a string is reported once": {
			"InterPodAffinity", `{apiVersion: 1, x: 2}`,
			map[string]string{"apiVersion": "wrong type: must be a string, is a number", "x": "unknown field: the plugin has no such argument"},
		},
		"of arguments of another kind only the kind is reported": {
			"InterPodAffinity", `{kind: NodeResourcesFitArgs, scoringStrategy: {type: x}}`,
			map[string]string{"kind": `must be "InterPodAffinityArgs" or left out, is "NodeResourcesFitArgs"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, rejection := Profile(Input{Profile: profile(t, `pluginConfig: [{name: `+c.plugin+`, args: `+c.given+`}]`), Registry: testRegistry()})
			if rejection == nil {
				t.Fatal("want a rejection, got none")
			}
			got, want := map[string]string{}, map[string]string{}
			for _, f := range rejection.Errors {
				got[f.Path] += f.Detail
			}
			for field, detail := range c.want {
				want[args+field] = detail
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
