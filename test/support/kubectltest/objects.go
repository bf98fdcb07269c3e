package kubectltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Ago returns the time d before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

// Profile returns a profile that Berth has not observed yet.
func Profile(name string, generation int64, edits ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{
		Name: name, Generation: generation, UID: types.UID(name), CreationTimestamp: Ago(48 * time.Hour),
	}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	p.Spec.SetDefaults()
	return p
}

// Running sets the status of a profile of which a generation is running. The profile is
// Ready if it is its current generation.
func Running(p *v1alpha1.SchedulingProfile, runs *appsv1.ControllerRevision, generation int64) *v1alpha1.SchedulingProfile {
	hash := runs.Name[len(p.Name)+1:]
	p.Status.Programmed = &v1alpha1.ProgrammedProfile{Generation: generation, Hash: hash, Revision: runs.Name, Time: &metav1.Time{Time: Now.Add(-time.Hour)}}
	p.Status.Programmed.Plugins = programmedPlugins(runs)
	p.Status.Queue, p.Status.Totals = &v1alpha1.QueueStatus{}, &v1alpha1.DecisionTotals{}
	status, reason, message := metav1.ConditionTrue, "", fmt.Sprintf("generation %d runs since 11:00", generation)
	if generation != p.Generation {
		status, reason = metav1.ConditionFalse, "UnknownPlugin"
		message = fmt.Sprintf(`generation %d keeps running since 11:00; generation %d refused: spec.plugins.score.enabled[0].name: `+
			`no plugin "NodeResourceFit", did you mean "NodeResourcesFit"?`, generation, p.Generation)
	}
	for _, c := range []v1alpha1.ConditionType{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		why := reason
		if why == "" {
			why = string(c)
		}
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: string(c), Status: status, Reason: why, Message: message, ObservedGeneration: p.Generation,
		})
	}
	return p
}

// programmedPlugins are the plugins of a revision, as a status lists them.
func programmedPlugins(of *appsv1.ControllerRevision) []v1alpha1.ProgrammedPlugin {
	p := &v1alpha1.SchedulingProfile{}
	if err := json.Unmarshal(of.Data.Raw, p); err != nil {
		panic(err)
	}
	blueprint, _ := compile.Profile(compile.Input{Profile: p, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	var all []v1alpha1.ProgrammedPlugin
	for point, chain := range blueprint.Chains {
		for _, entry := range chain {
			title := v1alpha1.ExtensionPoint(strings.ToUpper(string(point[:1])) + string(point[1:]))
			all = append(all, v1alpha1.ProgrammedPlugin{Name: entry.Name, Points: []v1alpha1.ExtensionPoint{title}, Weight: entry.Weight})
		}
	}
	return all
}

// Revision returns the ControllerRevision that Berth stores for a profile; number is its
// revision.
func Revision(p *v1alpha1.SchedulingProfile, number int64, configs ...*v1alpha1.PluginConfig) *appsv1.ControllerRevision {
	by := map[string]*v1alpha1.PluginConfig{}
	for _, c := range configs {
		by[c.Name] = c
	}
	data, err := compile.SelfContained(p, by)
	if err != nil {
		panic(err) // a mistake of the test
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: p, Configs: by, Registry: plugins.InTree(), Version: "test", Extenders: compile.AllExtenders})
	if rejection != nil {
		panic(rejection.Message())
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.DefaultBerthNamespace, Name: compile.RevisionName(p.Name, blueprint.Hash), CreationTimestamp: Ago(time.Duration(20-number) * time.Hour),
			Labels: map[string]string{v1alpha1.LabelProfile: p.Name},
			Annotations: map[string]string{
				v1alpha1.AnnotationGeneration: fmt.Sprint(p.Generation), v1alpha1.AnnotationProfileUID: string(p.UID),
			},
		},
		Revision: number, Data: runtime.RawExtension{Raw: data},
	}
}

// WithWeight sets the weight of a plugin.
func WithWeight(plugin string, weight int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin, Weight: &weight}}}}
	}
}

// WithConfigRef makes a plugin take its arguments from a PluginConfig.
func WithConfigRef(plugin, config string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.PluginConfig = append(s.PluginConfig, v1alpha1.PluginArguments{Name: plugin, ConfigRef: &v1alpha1.PluginConfigReference{Name: config}})
	}
}

// Config returns a PluginConfig.
func Config(name, plugin, args string) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.PluginConfigSpec{Plugin: plugin, Args: runtime.RawExtension{Raw: []byte(args)}},
	}
}

// caBundle is a certificate that no test uses; it differs in every run.
var caBundle, _, _ = cert.GenerateSelfSignedCertKey("authority.example", nil, nil)

// Extender returns an extender that filters, for pods with one of the resources, or for all.
func Extender(name string, manages ...string) v1alpha1.Extender {
	e := v1alpha1.Extender{Name: name, URL: "https://" + name + ".example/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter"}, TLS: v1alpha1.ExtenderTLS{CABundle: caBundle}}
	for _, resource := range manages {
		e.ManagedResources = append(e.ManagedResources, v1alpha1.ExtenderManagedResource{Name: resource})
	}
	return e
}

// Pod returns a pod that was created an hour ago.
func Pod(name, scheduler, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: Ago(time.Hour)},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, NodeName: node},
	}
	return pod
}

// WithPodScheduled sets the condition PodScheduled of a pod, ten minutes ago.
func WithPodScheduled(pod *corev1.Pod, status corev1.ConditionStatus, reason, message string) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message, LastTransitionTime: Ago(10 * time.Minute),
	}}
	return pod
}
