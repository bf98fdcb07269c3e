package compile

import (
	"regexp"
	"testing"

	"github.com/berthdev/berth/api/v1alpha1"
)

func hashOf(t *testing.T, spec, version string, change func(*v1alpha1.SchedulingProfile)) string {
	t.Helper()
	p := profile(t, spec)
	if change != nil {
		change(p)
	}
	blueprint, rejection := Profile(Input{
		Profile: p,
		Configs: configs(
			config(t, "binpack", `{plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}`),
			config(t, "tight", `{plugin: NodeResourcesFit, args: {scoringStrategy: {resources: [{weight: 1, name: cpu}], type: MostAllocated}}}`),
		),
		Registry: testRegistry(),
		Version:  version,
	})
	if rejection != nil {
		t.Fatalf("rejected: %s", rejection.Message())
	}
	if !regexp.MustCompile(`^[0-9a-f]{10}$`).MatchString(blueprint.Hash) {
		t.Errorf("hash %q is not ten hex digits", blueprint.Hash)
	}
	return blueprint.Hash
}

const binpackInline = `pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]`

func TestWhatTheHashDoesNotDependOn(t *testing.T) {
	base := hashOf(t, binpackInline, "v1", nil)
	for name, test := range map[string]struct {
		spec   string
		change func(*v1alpha1.SchedulingProfile)
	}{
		"the order of keys": {spec: `pluginConfig: [{args: {scoringStrategy: {resources: [{weight: 1, name: cpu}], type: MostAllocated}}, name: NodeResourcesFit}]`},
		"whether arguments are inline or in a PluginConfig": {spec: `pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]`},
		"which PluginConfig holds the arguments":            {spec: `pluginConfig: [{name: NodeResourcesFit, configRef: {name: tight}}]`},
		"the kind inside arguments":                         {spec: `pluginConfig: [{name: NodeResourcesFit, args: {kind: NodeResourcesFitArgs, scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]`},
		"the state":                                         {spec: "state: Paused\n" + binpackInline},
		"explicit defaults":                                 {spec: "queue: {initialBackoffSeconds: 1, flushAfterSeconds: 300}\n" + binpackInline},
		"the name, the generation and the labels": {
			spec: binpackInline,
			change: func(p *v1alpha1.SchedulingProfile) {
				p.Name, p.Generation, p.Labels = "other", 99, map[string]string{"a": "b"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hashOf(t, test.spec, "v1", test.change); got != base {
				t.Errorf("hash %s, want %s", got, base)
			}
		})
	}
}

func TestArgumentsOfAPluginThatDoesNotRunAreNotInTheHash(t *testing.T) {
	const without = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n"
	if got, want := hashOf(t, without+binpackInline, "v1", nil), hashOf(t, without, "v1", nil); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

func TestWhatTheHashDependsOn(t *testing.T) {
	seen := map[string]string{hashOf(t, `{}`, "v1", nil): "the default profile"}
	for name, test := range map[string]struct{ spec, version string }{
		"an argument":          {spec: binpackInline, version: "v1"},
		"a weight":             {spec: `plugins: {score: {enabled: [{name: TaintToleration, weight: 4}]}}`, version: "v1"},
		"the order of a chain": {spec: `plugins: {filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}`, version: "v1"},
		"a disabled plugin":    {spec: `plugins: {score: {disabled: [{name: ImageLocality}]}}`, version: "v1"},
		"the percentage":       {spec: `percentageOfNodesToScore: 50`, version: "v1"},
		"the backoff":          {spec: `queue: {maxBackoffSeconds: 20}`, version: "v1"},
		"no flush":             {spec: `queue: {flushAfterSeconds: 0}`, version: "v1"},
		"what is recorded":     {spec: `decisions: {annotate: Disabled}`, version: "v1"},
		"Berth's version":      {spec: `{}`, version: "v2"},
	} {
		got := hashOf(t, test.spec, test.version, nil)
		if other, taken := seen[got]; taken {
			t.Errorf("%s: the same hash %s as %s", name, got, other)
		}
		seen[got] = name
	}
}

func TestAPluginConfigsHashNamesPluginAndArguments(t *testing.T) {
	hash := func(spec string) string {
		h, rejection := Config(config(t, "c", spec), testRegistry())
		if rejection != nil {
			t.Fatalf("rejected: %s", rejection.Message())
		}
		return h
	}
	implicit, explicit := hash(`{plugin: NodeResourcesFit, args: {}}`), hash(`{plugin: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated}}}`)
	if implicit != explicit {
		t.Errorf("an explicit default changes the hash: %s, %s", implicit, explicit)
	}
	if other := hash(`{plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}`); other == implicit {
		t.Errorf("other arguments, the same hash %s", other)
	}
}
