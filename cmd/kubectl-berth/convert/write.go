package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// printResult prints the PluginConfigs, and then the profiles that reference them.
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

// printObject prints an object without status and without empty fields.
func (o *options) printObject(object any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	spec, ok := fields["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
	}
	for name, value := range spec {
		if empty, ok := value.(map[string]any); ok && len(empty) == 0 {
			delete(spec, name)
		}
	}
	fields["spec"] = spec
	text, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s", text)
	return err
}
