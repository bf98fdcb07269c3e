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
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// ForKubeScheduler is the configuration under which kube-scheduler decides as the
// Blueprints do: one profile for each, in their order. The remarks say what of
// them it cannot; those paths are a SchedulingProfile's. The error says why they
// do not fit into one configuration, whose backoff and extenders are for all
// profiles.
func ForKubeScheduler(blueprints []*compile.Blueprint, registry framework.Registry) (*configv1.KubeSchedulerConfiguration, []Remark, error) {
	config := newConfiguration()
	var all []Remark
	for i, b := range blueprints {
		if i > 0 && !fault.OneConfigurationForAll {
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

// ForAutoscaler is the configuration that cluster-autoscaler takes with
// --scheduler-config-file. It asks PreFilter and Filter plugins of exactly one
// profile, in clusters that it makes up: an extender knows no nodes that do not
// exist, so none is named; and how pods wait is none of its business.
func ForAutoscaler(b *compile.Blueprint, registry framework.Registry) (*configv1.KubeSchedulerConfiguration, []Remark) {
	config := newConfiguration()
	e := &exporter{blueprint: b, registry: registry}
	config.Profiles = []configv1.KubeSchedulerProfile{e.profile()}
	if len(b.Extenders) > 0 {
		e.lost(field.NewPath("spec", "extenders"), "left out: an autoscaler asks about nodes that do not exist yet, which an extender does not know; it may buy a node that an extender then refuses")
	}
	return config, e.remarks
}

func newConfiguration() *configv1.KubeSchedulerConfiguration {
	config := &configv1.KubeSchedulerConfiguration{}
	config.APIVersion, config.Kind = configv1.SchemeGroupVersion.String(), Kind
	return config
}

// Text is a configuration as JSON without what was left to kube-scheduler.
func JSON(config *configv1.KubeSchedulerConfiguration) ([]byte, error) {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("writing a %s: %w", Kind, err)
	}
	// These have no word for "left out"; null and 0 stand for kube-scheduler's
	// own defaults.
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

// together says why two Blueprints do not fit into one configuration.
func checkCompatible(first, other *compile.Blueprint) error {
	if a, b := first.Queue, other.Queue; a.InitialBackoff != b.InitialBackoff || a.MaxBackoff != b.MaxBackoff {
		return fmt.Errorf("SchedulingProfile %s: spec.queue: the backoff is another than %s's, and kube-scheduler has one for all profiles: write a file for each", other.Name, first.Name)
	}
	if a, b := first.Chains[framework.QueueSort], other.Chains[framework.QueueSort]; !slices.Equal(a, b) {
		return fmt.Errorf("SchedulingProfile %s: spec.plugins.queueSort: is another than %s's, and kube-scheduler has one for all profiles: write a file for each", other.Name, first.Name)
	}
	if !reflect.DeepEqual(first.Extenders, other.Extenders) {
		return fmt.Errorf("SchedulingProfile %s: spec.extenders: are others than %s's, and kube-scheduler has one list for all profiles: write a file for each", other.Name, first.Name)
	}
	return nil
}

// exporter writes one profile.
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

// queue writes how pods wait.
func (e *exporter) queue(config *configv1.KubeSchedulerConfiguration) {
	queue := e.blueprint.Queue
	config.PodInitialBackoffSeconds = seconds(queue.InitialBackoff, v1alpha1.DefaultInitialBackoffSeconds)
	config.PodMaxBackoffSeconds = seconds(queue.MaxBackoff, v1alpha1.DefaultMaxBackoffSeconds)
	if own := seconds(queue.FlushAfter, v1alpha1.DefaultFlushAfterSeconds); own != nil {
		e.lost(field.NewPath("spec", "queue", "flushAfterSeconds"), "no field of a %s: it is kube-scheduler's deprecated flag --pod-max-in-unschedulable-pods-duration=%v", Kind, queue.FlushAfter)
	}
}

// arguments are those that were given to plugins that kube-scheduler has.
func (e *exporter) arguments(chains framework.Chains, path *field.Path) []configv1.PluginConfig {
	var given []configv1.PluginConfig
	done := map[string]bool{}
	for _, point := range framework.Points {
		for _, entry := range chains[point] {
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
	}
	return given
}

// usual says whether a plugin's arguments are its defaults.
func (e *exporter) isDefault(name string, args runtime.Object) bool {
	registration := e.registry[name]
	if registration.NewArgs == nil {
		return false
	}
	usual := registration.NewArgs()
	if registration.Default != nil {
		registration.Default(usual)
	}
	usual.GetObjectKind().SetGroupVersionKind(args.GetObjectKind().GroupVersionKind())
	return reflect.DeepEqual(usual, args)
}
