package upstreamconfig

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// V1beta3 is the version of kube-scheduler's configuration that kube-scheduler 1.23 to
// 1.28 read. v1 exists since 1.25.
const V1beta3 = "kubescheduler.config.k8s.io/v1beta3"

// fromV1beta3 converts a configuration of version v1beta3 to v1, in place. v1 has all
// fields of v1beta3, with the same names and defaults. Fields that only v1 has are
// errors, as in kube-scheduler. The arguments of plugins may have either version.
func fromV1beta3(config *configv1.KubeSchedulerConfiguration, r *Result) error {
	var errs Errors
	missing := func(path *field.Path, there bool) {
		if there {
			errs.add(path, "unknown field in %s: set apiVersion to %s, which has it", V1beta3, configv1.SchemeGroupVersion)
		}
	}
	missing(field.NewPath("delayCacheUntilActive"), config.DelayCacheUntilActive)
	for i := range config.Profiles {
		p, path := &config.Profiles[i], field.NewPath("profiles").Index(i)
		missing(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore != nil)
		if plugins := p.Plugins; plugins != nil {
			for name, set := range map[string]configv1.PluginSet{
				"placementGenerate": plugins.PlacementGenerate, "placementScore": plugins.PlacementScore, "podGroupPostFilter": plugins.PodGroupPostFilter,
			} {
				missing(path.Child("plugins", name), len(set.Enabled)+len(set.Disabled) > 0)
			}
		}
		for j := range p.PluginConfig {
			args := &p.PluginConfig[j].Args
			args.Raw = argumentsOfV1(args.Raw)
		}
	}
	if err := errs.err(); err != nil {
		return err
	}
	config.APIVersion = configv1.SchemeGroupVersion.String()
	r.note(field.NewPath("apiVersion"), "%s is read as %s: the fields are the same; kube-scheduler does not read it since 1.29", V1beta3, config.APIVersion)
	return nil
}

// argumentsOfV1 changes the apiVersion of arguments from v1beta3 to v1, where they have
// one.
func argumentsOfV1(raw []byte) []byte {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return raw // the compiler reports the error
	}
	var version string
	if err := json.Unmarshal(fields["apiVersion"], &version); err != nil || version != V1beta3 {
		return raw
	}
	text, err := json.Marshal(configv1.SchemeGroupVersion.String())
	if err != nil {
		return raw
	}
	fields["apiVersion"] = text
	if text, err = json.Marshal(fields); err != nil {
		return raw
	}
	return text
}
