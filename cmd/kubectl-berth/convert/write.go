package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// write prints what can be applied: PluginConfigs before the profiles that name
// them.
func (o *options) printResult(read *upstreamconfig.Result) error {
	for _, c := range read.Configs {
		if err := o.printObject(c); err != nil {
			return err
		}
	}
	for _, p := range read.Profiles {
		if err := o.printObject(p); err != nil {
			return err
		}
	}
	return nil
}

// document prints an object as somebody would have written it.
func (o *options) printObject(object any) error {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(plain, "status")
	if metadata, ok := plain["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	spec, ok := plain["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
	}
	for name, value := range spec {
		if empty, ok := value.(map[string]any); ok && len(empty) == 0 {
			delete(spec, name)
		}
	}
	plain["spec"] = spec
	text, err := yaml.Marshal(plain)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s", text)
	return err
}
