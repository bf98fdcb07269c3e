package badinput

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

func TestTheCompilerReportsTheError(t *testing.T) {
	for _, c := range cases(t) {
		if c.Refused {
			continue // the API server rejects it
		}
		t.Run(c.Name, func(t *testing.T) {
			rejection := compileCase(t, c)
			if rejection == nil {
				t.Fatalf("accepted: %s", c.Description)
			}
			condition, reason := rejection.Condition()
			if condition != c.Condition || reason != c.Reason {
				t.Errorf("%s=False %s, want %s=False %s", condition, reason, c.Condition, c.Reason)
			}
			if message := rejection.Message(); !strings.Contains(message, c.Message) {
				t.Errorf("the message\n\t%s\ndoes not contain\n\t%s", message, c.Message)
			}
		})
	}
}

// compileCase compiles a case's invalid object with the PluginConfigs before it.
func compileCase(t *testing.T, c Case) *compile.Rejection {
	t.Helper()
	if c.Bad().GetKind() == "PluginConfig" {
		cfg := &v1alpha1.PluginConfig{}
		convert(t, c.Bad(), cfg)
		_, rejection := compile.Config(cfg, plugins.InTree())
		return rejection
	}
	profile := &v1alpha1.SchedulingProfile{}
	convert(t, c.Bad(), profile)
	_, rejection := compile.Profile(compile.Input{Profile: profile, Configs: configsBefore(t, c), Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	return rejection
}

func configsBefore(t *testing.T, c Case) map[string]*v1alpha1.PluginConfig {
	t.Helper()
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, object := range c.Objects[:len(c.Objects)-1] {
		if object.GetKind() != "PluginConfig" {
			continue // a sample may have objects of Kubernetes, too
		}
		cfg := &v1alpha1.PluginConfig{}
		convert(t, object, cfg)
		configs[cfg.Name] = cfg
	}
	return configs
}

func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.Object, to, true); err != nil {
		t.Fatalf("%s %s: %v", from.GetKind(), from.GetName(), err)
	}
}

func TestEveryCaseCanBeAppliedBesideTheOthers(t *testing.T) {
	owner := map[string]string{}
	for _, c := range cases(t) {
		for _, object := range c.Objects {
			key := object.GetKind() + "/" + object.GetName()
			if other, taken := owner[key]; taken && other != c.Name {
				t.Errorf("%s is in %s and in %s", key, other, c.Name)
			}
			owner[key] = c.Name
			if !strings.HasPrefix(object.GetName(), "bad-") {
				t.Errorf("%s: the name of %s does not begin with bad-", c.Name, key)
			}
		}
	}
}

func TestAFileWithoutItsCommentIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"expect is missing":                 "# Something is wrong.\n# message: m\na: b\n",
		"message is missing":                "# Something is wrong.\n# expect: refused\na: b\n",
		"the expected condition is invalid": "# Something is wrong.\n# expect: Accepted=Maybe\n# message: m\na: b\n",
		"there is no document":              "# Something is wrong.\n# expect: refused\n# message: m\n",
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := parse([]byte(text)); err == nil {
				t.Errorf("accepted as %+v", c)
			}
		})
	}
}

func cases(t *testing.T) []Case {
	t.Helper()
	all, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
