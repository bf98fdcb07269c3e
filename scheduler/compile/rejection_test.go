package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	accepted     = "Accepted"
	resolvedRefs = "ResolvedRefs"
	noStrategy   = `Unsupported value: "": supported values: "LeastAllocated", "MostAllocated"`
)

func TestFieldErrors(t *testing.T) {
	known := func(t *testing.T) map[string]*v1alpha1.PluginConfig {
		return configs(
			config(t, "binpack", `{plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}`),
			config(t, "broken", `{plugin: NodeResourcesFit, args: {alsoWrong: 1, scoringStrategy: {typo: MostAllocated}}}`),
		)
	}
	for name, test := range map[string]struct {
		spec string
		want []FieldError
	}{
		"an unknown plugin is reported with a similar name": {
			spec: `plugins: {score: {enabled: [{name: NodeResourceFit}]}}`,
			want: []FieldError{{accepted, "UnknownPlugin", "spec.plugins.score.enabled[0].name", `no plugin "NodeResourceFit", did you mean "NodeResourcesFit"?`}},
		},
		"a default plugin of kube-scheduler that this build lacks is reported as such": {
			spec: `plugins: {filter: {enabled: [{name: VolumeBinding}]}}`,
			want: []FieldError{{accepted, "UnknownPlugin", "spec.plugins.filter.enabled[0].name", `this build has no plugin "VolumeBinding"`}},
		},
		"an unknown plugin cannot be disabled either": {
			spec: `plugins: {multiPoint: {disabled: [{name: imagelocalty}]}}`,
			want: []FieldError{{accepted, "UnknownPlugin", "spec.plugins.multiPoint.disabled[0].name", `no plugin "imagelocalty", did you mean "ImageLocality"?`}},
		},
		`"*" cannot be enabled`: {
			spec: `plugins: {multiPoint: {enabled: [{name: "*"}]}}`,
			want: []FieldError{{accepted, "UnknownPlugin", "spec.plugins.multiPoint.enabled[0].name", `"*" can be disabled, not enabled: name each plugin`}},
		},
		"a plugin cannot be enabled at a point that it does not implement": {
			spec: `plugins: {score: {enabled: [{name: NodeName}]}}`,
			want: []FieldError{{accepted, "InvalidPlugins", "spec.plugins.score.enabled[0].name", `plugin "NodeName" does not implement score: it implements preFilter, filter`}},
		},
		"a duplicate plugin in one set is rejected": {
			spec: `plugins: {score: {enabled: [{name: ImageLocality}, {name: TaintToleration}, {name: ImageLocality, weight: 2}]}}`,
			want: []FieldError{{accepted, "InvalidPlugins", "spec.plugins.score.enabled[2].name", `Duplicate value: "ImageLocality": enabled[0] already names it`}},
		},
		"a weight below 1 is rejected": {
			spec: `plugins: {score: {enabled: [{name: ImageLocality, weight: 0}, {name: TaintToleration, weight: -3}]}}`,
			want: []FieldError{
				{accepted, "InvalidPlugins", "spec.plugins.score.enabled[0].weight", "must be at least 1, is 0: to turn the plugin off, list it under disabled"},
				{accepted, "InvalidPlugins", "spec.plugins.score.enabled[1].weight", "must be at least 1, is -3: to turn the plugin off, list it under disabled"},
			},
		},
		"a weight at a point other than score is rejected": {
			spec: `plugins: {filter: {enabled: [{name: NodeName, weight: 2}]}}`,
			want: []FieldError{{accepted, "InvalidPlugins", "spec.plugins.filter.enabled[0].weight", "a weight may only be set in score and multiPoint"}},
		},
		"a weight for a plugin that does not score is rejected": {
			spec: `plugins: {multiPoint: {enabled: [{name: NodeName, weight: 2}]}}`,
			want: []FieldError{{accepted, "InvalidPlugins", "spec.plugins.multiPoint.enabled[0].weight", `plugin "NodeName" does not score, so a weight would do nothing: leave it out`}},
		},
		"base None with nothing enabled lacks a queue sort and a bind plugin": {
			spec: `base: None`,
			want: []FieldError{
				{accepted, "InvalidPlugins", "spec.plugins.queueSort", "no plugin sorts the queue: enable exactly one, such as PrioritySort"},
				{accepted, "InvalidPlugins", "spec.plugins.bind", "no plugin binds pods: enable at least one, such as DefaultBinder"},
			},
		},
		"two queue sorts are rejected": {
			spec: `plugins: {queueSort: {enabled: [{name: ArrivalSort}]}}`,
			want: []FieldError{{accepted, "InvalidPlugins", "spec.plugins.queueSort", "exactly one plugin may sort the queue, are 2 (ArrivalSort, PrioritySort): disable the others"}},
		},
		"an unknown argument is reported with its path": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu}, {nam: memory}]}}}]`,
			want: []FieldError{
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy.resources[1].nam", `unknown field: the plugin has no such argument, did you mean "name"?`},
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy.type", noStrategy},
			},
		},
		"an argument in the wrong case is unknown": {
			spec: `pluginConfig: [{name: InterPodAffinity, args: {HardPodAffinityWeight: 1}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.HardPodAffinityWeight",
				`unknown field: the plugin has no such argument, did you mean "hardPodAffinityWeight"?`}},
		},
		"an argument of the wrong type is reported with its path": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a, b], scoringStrategy: {resources: [{name: cpu, weight: 1}, {name: memory, weight: heavy}]}}}]`,
			want: []FieldError{
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy.resources[1].weight", "wrong type: must be a whole number (int64), is a string"},
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy.type", noStrategy},
			},
		},
		"a list instead of an object is reported with its path": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a], scoringStrategy: [1]}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy", "wrong type: must be an object, is an array"}},
		},
		"an object instead of a list is reported with its path": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: {a: b}}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.ignoredResources", "wrong type: must be a list, is an object"}},
		},
		"a number out of the range of its type is rejected": {
			spec: `pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 99999999999}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.hardPodAffinityWeight", "wrong type: must be a whole number (int32), is a number 99999999999"}},
		},
		"an error of the plugin's own validation is reported as it is": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Tightest}}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.scoringStrategy.type", `Unsupported value: "Tightest": supported values: "LeastAllocated", "MostAllocated"`}},
		},
		"the apiVersion and kind of other arguments are rejected": {
			spec: `pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: InterPodAffinityArgs}}]`,
			want: []FieldError{
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.apiVersion", `must be "kubescheduler.config.k8s.io/v1" or left out, is "kubescheduler.config.k8s.io/v1beta3"`},
				{accepted, "InvalidArguments", "spec.pluginConfig[0].args.kind", `must be "NodeResourcesFitArgs" or left out, is "InterPodAffinityArgs"`},
			},
		},
		"arguments for a plugin that takes none are rejected": {
			spec: `pluginConfig: [{name: NodeName, args: {}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args", `plugin "NodeName" takes no arguments`}},
		},
		"arguments for an unknown plugin are rejected": {
			spec: `pluginConfig: [{name: NodeNme, args: {}}]`,
			want: []FieldError{{accepted, "UnknownPlugin", "spec.pluginConfig[0].name", `no plugin "NodeNme", did you mean "NodeName"?`}},
		},
		"arguments for a plugin that does not run are validated": {
			spec: `{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, pluginConfig: [{name: NodeResourcesFit, args: {x: 1}}]}`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args.x", "unknown field: the plugin has no such argument"}},
		},
		"two entries for one plugin are rejected": {
			spec: `pluginConfig: [{name: InterPodAffinity, args: {}}, {name: InterPodAffinity, configRef: {name: binpack}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[1].name", `Duplicate value: "InterPodAffinity": pluginConfig[0] already gives its arguments`}},
		},
		"arguments come either from args or from configRef": {
			spec: `pluginConfig: [{name: InterPodAffinity}, {name: NodeResourcesFit, args: {}, configRef: {name: binpack}}]`,
			want: []FieldError{
				{accepted, "InvalidArguments", "spec.pluginConfig[0]", "exactly one of args and configRef must be set"},
				{accepted, "InvalidArguments", "spec.pluginConfig[1]", "exactly one of args and configRef must be set"},
			},
		},
		"a missing PluginConfig is named": {
			spec: `pluginConfig: [{name: NodeResourcesFit, configRef: {name: absent}}]`,
			want: []FieldError{{resolvedRefs, "PluginConfigNotFound", "spec.pluginConfig[0].configRef.name", `PluginConfig "absent" not found: create it, or set args instead`}},
		},
		"a PluginConfig for another plugin is rejected": {
			spec: `pluginConfig: [{name: InterPodAffinity, configRef: {name: binpack}}]`,
			want: []FieldError{{resolvedRefs, "PluginMismatch", "spec.pluginConfig[0].configRef.name", `PluginConfig "binpack" is for plugin "NodeResourcesFit", not for "InterPodAffinity"`}},
		},
		"the errors of an invalid PluginConfig are reported": {
			spec: `pluginConfig: [{name: NodeResourcesFit, configRef: {name: broken}}]`,
			want: []FieldError{
				{resolvedRefs, "PluginConfigRefused", "spec.pluginConfig[0].configRef.name", `PluginConfig "broken" is invalid: spec.args.alsoWrong: unknown field: the plugin has no such argument`},
				{resolvedRefs, "PluginConfigRefused", "spec.pluginConfig[0].configRef.name", `PluginConfig "broken" is invalid: spec.args.scoringStrategy.typo: unknown field: the plugin has no such argument, did you mean "type"?`},
			},
		},
		"a panic of a plugin over its arguments is an error, not a crash": {
			spec: `pluginConfig: [{name: Fragile, args: {}}]`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.pluginConfig[0].args", `plugin "Fragile" panicked over its arguments: glass`}},
		},
		"a maximum backoff below the initial one is rejected": {
			spec: `queue: {initialBackoffSeconds: 20}`,
			want: []FieldError{{accepted, "InvalidArguments", "spec.queue.maxBackoffSeconds", "must be at least initialBackoffSeconds, which is 20, is 10"}},
		},
		"numbers out of range and unknown enum values are rejected without an API server": {
			spec: `{state: Resting, percentageOfNodesToScore: 101, queue: {flushAfterSeconds: -1}, decisions: {history: 51}}`,
			want: []FieldError{
				{accepted, "InvalidArguments", "spec.state", `must be Active or Paused, is "Resting"`},
				{accepted, "InvalidArguments", "spec.percentageOfNodesToScore", "must be from 0 to 100, is 101"},
				{accepted, "InvalidArguments", "spec.queue.flushAfterSeconds", "must be from 0 to 86400, is -1"},
				{accepted, "InvalidArguments", "spec.decisions.history", "must be from 0 to 50, is 51"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			blueprint, rejection := Profile(Input{Profile: profile(t, test.spec), Configs: known(t), Registry: testRegistry()})
			if rejection == nil || blueprint != nil {
				t.Fatalf("want a rejection and no blueprint, got %v and %v", rejection, blueprint)
			}
			if diff := cmp.Diff(test.want, rejection.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessageNamesEveryErrorUpToTwenty(t *testing.T) {
	var r Rejection
	for i := range 23 {
		r.Errors = append(r.Errors, FieldError{Condition: resolvedRefs, Reason: "PluginConfigNotFound", Path: fmt.Sprintf("p[%d]", i), Detail: "d"})
	}
	r.Errors = append(r.Errors, FieldError{Condition: accepted, Reason: "UnknownPlugin", Path: "q", Detail: strings.Repeat("é", 600)})

	if got := r.Message(); !strings.HasPrefix(got, "p[0]: d; p[1]: d; ") || !strings.HasSuffix(got, "p[19]: d; and 4 more") {
		t.Errorf("message: %s", got)
	}
	if condition, reason := r.Condition(); condition != accepted || reason != "UnknownPlugin" {
		t.Errorf("Accepted comes before ResolvedRefs, got %s, %s", condition, reason)
	}
	if got, want := r.For(v1alpha1.ConditionAccepted).Message(), "q: "+strings.Repeat("é", 511)+"…"; got != want {
		t.Errorf("a long detail is cut between characters, got %s", got)
	}
	if part := r.For(v1alpha1.ConditionProgrammed); part != nil {
		t.Errorf("no error belongs to Programmed, got %v", part)
	}
}
