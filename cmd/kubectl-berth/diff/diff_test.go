package diff

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/kubectltest"
)

const (
	profileYAML       = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"
	pluginConfigYAML  = "apiVersion: berth.dev/v1alpha1\nkind: PluginConfig\nmetadata: {name: binpack}\n"
	mostAllocatedArgs = `{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}`
	unchangedYAML     = profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 5}]}}, pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n"
)

// testObjects is a cluster in which batch is running, with arguments from a PluginConfig.
func testObjects() []client.Object {
	config := kubectltest.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1}]}}`)
	p := kubectltest.Profile("batch", 6, kubectltest.WithWeight("TaintToleration", 5), kubectltest.WithConfigRef("NodeResourcesFit", "binpack"))
	runs := kubectltest.Revision(p, 1, config)
	return []client.Object{config, kubectltest.Running(p, runs, 6), runs}
}

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		in      string
		fail    func(string, any) error
	}{
		"no difference":                         {objects: testObjects(), in: unchangedYAML},
		"no difference, with arguments inline":  {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 5}]}}, pluginConfig: [{name: NodeResourcesFit, args: " + mostAllocatedArgs + "}]}\n"},
		"another weight, and a disabled plugin": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 2}], disabled: [{name: ImageLocality}]}}, pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n"},
		"other settings and another state":      {objects: testObjects(), in: unchangedYAML[:len(unchangedYAML)-2] + ", state: Paused, queue: {maxBackoffSeconds: 60}}\n"},
		"a PluginConfig alone":                  {objects: testObjects(), in: pluginConfigYAML + "spec: {plugin: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated}}}\n"},
		"a PluginConfig without a reference":    {in: pluginConfigYAML + "spec: {plugin: NodeResourcesFit, args: {}}\n"},
		"a PluginConfig that does not exist":    {in: unchangedYAML},
		"a profile that does not exist":         {in: profileYAML},
		"no permission to list revisions": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {disabled: [{name: ImageLocality}]}}}\n", fail: func(_ string, object any) error {
			if _, ok := object.(*appsv1.ControllerRevisionList); ok {
				return errors.New("controllerrevisions.apps is forbidden")
			}
			return nil
		}},
		"a file that is rejected":      {objects: testObjects(), in: profileYAML + "spec: {state: Resting}\n"},
		"a plugin that does not exist": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: Nope}]}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.objects...)
			env.In, env.Fail = c.in, c.fail
			kubectltest.Golden(t, name, env.Run(New, "-f", "-"), false)
		})
	}
}
