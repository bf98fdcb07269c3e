package upstreamconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// ForKubeScheduler returns a configuration with which kube-scheduler decides as the
// Blueprints do, with one profile for each of them, in their order. The remarks name
// what kube-scheduler cannot do, with paths of a SchedulingProfile. The error says why
// the Blueprints do not fit into one configuration, in which backoff, queue sort and
// extenders are common to all profiles.
func ForKubeScheduler(blueprints []*compile.Blueprint, registry framework.Registry) (*configv1.KubeSchedulerConfiguration, []Remark, error) {
	config := newConfiguration()
	var all []Remark
	for i, b := range blueprints {
		if i > 0 {
			if err := checkCompatible(blueprints[0], b); err != nil {
				return nil, nil, err
			}
		}
		e := &exporter{blueprint: b, registry: registry}
		config.Profiles = append(config.Profiles, e.profile())
		e.queue(config)
		config.Extenders = e.extenders(field.NewPath("spec", "extenders"))
		all = append(all, e.remarks...)
	}
	return config, all, nil
}

// ForAutoscaler returns the configuration for cluster-autoscaler's
// --scheduler-config-file. The autoscaler runs the PreFilter and Filter plugins of
// exactly one profile on simulated nodes. So the configuration leaves out extenders,
// which know only existing nodes, and the queue, which the autoscaler does not use.
func ForAutoscaler(b *compile.Blueprint, registry framework.Registry) (*configv1.KubeSchedulerConfiguration, []Remark) {
	config := newConfiguration()
	e := &exporter{blueprint: b, registry: registry}
	config.Profiles = []configv1.KubeSchedulerProfile{e.profile()}
	if len(b.Extenders) > 0 {
		e.lost(field.NewPath("spec", "extenders"), "left out: an autoscaler asks about nodes that do not exist yet, which an extender does not know; it may add a node that an extender then rejects")
	}
	return config, e.remarks
}

func newConfiguration() *configv1.KubeSchedulerConfiguration {
	config := &configv1.KubeSchedulerConfiguration{}
	config.APIVersion, config.Kind = configv1.SchemeGroupVersion.String(), Kind
	return config
}

// JSON returns a configuration as JSON without the fields that are left to
// kube-scheduler's defaults.
func JSON(config *configv1.KubeSchedulerConfiguration) ([]byte, error) {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("writing a %s: %w", Kind, err)
	}
	// The Go types of these fields cannot omit them, and write null and 0, which mean
	// kube-scheduler's defaults.
	delete(plain, "leaderElection")
	delete(plain, "clientConnection")
	if profiles, ok := plain["profiles"].([]any); ok {
		for _, p := range profiles {
			if plugins, ok := p.(map[string]any)["plugins"].(map[string]any); ok {
				for name, set := range plugins {
					if empty, ok := set.(map[string]any); ok && len(empty) == 0 {
						delete(plugins, name)
					}
				}
			}
		}
	}
	return json.Marshal(plain)
}

// checkCompatible says why two Blueprints do not fit into one configuration.
func checkCompatible(first, other *compile.Blueprint) error {
	if a, b := first.Queue, other.Queue; a.InitialBackoff != b.InitialBackoff || a.MaxBackoff != b.MaxBackoff {
		return fmt.Errorf("SchedulingProfile %s: spec.queue: the backoff differs from that of %s, and kube-scheduler has one for all profiles: write a file for each", other.Name, first.Name)
	}
	if a, b := first.Chains[framework.QueueSort], other.Chains[framework.QueueSort]; !slices.Equal(a, b) {
		return fmt.Errorf("SchedulingProfile %s: spec.plugins.queueSort: differs from that of %s, and kube-scheduler has one for all profiles: write a file for each", other.Name, first.Name)
	}
	if !reflect.DeepEqual(first.Extenders, other.Extenders) {
		return fmt.Errorf("SchedulingProfile %s: spec.extenders: differ from those of %s, and kube-scheduler has one list for all profiles: write a file for each", other.Name, first.Name)
	}
	return nil
}

// exporter converts one Blueprint to a profile of kube-scheduler.
type exporter struct {
	blueprint *compile.Blueprint
	registry  framework.Registry
	remarks   []Remark
}

func (e *exporter) lost(path *field.Path, format string, args ...any) {
	e.remarks = append(e.remarks, Remark{Path: path.String(), Text: fmt.Sprintf(format, args...), Lost: true})
}

func (e *exporter) note(path *field.Path, format string, args ...any) {
	e.remarks = append(e.remarks, Remark{Path: path.String(), Text: fmt.Sprintf(format, args...)})
}

func (e *exporter) profile() configv1.KubeSchedulerProfile {
	b, spec := e.blueprint, field.NewPath("spec")
	name := b.Name
	p := configv1.KubeSchedulerProfile{SchedulerName: &name}
	if b.PercentageOfNodesToScore != 0 {
		percentage := b.PercentageOfNodesToScore
		p.PercentageOfNodesToScore = &percentage
	}
	chains := e.chains(spec.Child("plugins"))
	p.Plugins = e.plugins(chains)
	p.PluginConfig = e.arguments(chains, spec.Child("pluginConfig"))
	if b.Namespaces != nil {
		e.lost(spec.Child("allowedNamespaces"), "kube-scheduler takes pods of every namespace, this profile only those of %s", b.Namespaces)
	}
	return p
}

// queue sets the backoff of the configuration.
func (e *exporter) queue(config *configv1.KubeSchedulerConfiguration) {
	queue := e.blueprint.Queue
	config.PodInitialBackoffSeconds = nonDefaultSeconds(queue.InitialBackoff, v1alpha1.DefaultInitialBackoffSeconds)
	config.PodMaxBackoffSeconds = nonDefaultSeconds(queue.MaxBackoff, v1alpha1.DefaultMaxBackoffSeconds)
	if own := nonDefaultSeconds(queue.FlushAfter, v1alpha1.DefaultFlushAfterSeconds); own != nil {
		e.lost(field.NewPath("spec", "queue", "flushAfterSeconds"), "no field of a %s: it is kube-scheduler's deprecated flag --pod-max-in-unschedulable-pods-duration=%v", Kind, queue.FlushAfter)
	}
}

// arguments returns the arguments of the plugins in chains that differ from the
// defaults.
func (e *exporter) arguments(chains framework.Chains, path *field.Path) []configv1.PluginConfig {
	var given []configv1.PluginConfig
	done := map[string]bool{}
	for _, entry := range chains.All() {
		args, takes := e.blueprint.Args[entry.Name]
		if !takes || done[entry.Name] || e.isDefault(entry.Name, args) {
			continue
		}
		done[entry.Name] = true
		plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(args)
		if err != nil {
			e.lost(path, "the arguments of %s cannot be written: %v", entry.Name, err)
			continue
		}
		plain["apiVersion"], plain["kind"] = configv1.SchemeGroupVersion.String(), entry.Name+"Args"
		text, err := json.Marshal(plain)
		if err != nil {
			e.lost(path, "the arguments of %s cannot be written: %v", entry.Name, err)
			continue
		}
		given = append(given, configv1.PluginConfig{Name: entry.Name, Args: runtime.RawExtension{Raw: text}})
	}
	return given
}

// isDefault reports whether args are the default arguments of the plugin called name.
func (e *exporter) isDefault(name string, args runtime.Object) bool {
	registration := e.registry[name]
	if registration.NewArgs == nil {
		return false
	}
	defaults := registration.NewArgs()
	if registration.Default != nil {
		registration.Default(defaults)
	}
	defaults.GetObjectKind().SetGroupVersionKind(args.GetObjectKind().GroupVersionKind())
	return reflect.DeepEqual(defaults, args)
}
