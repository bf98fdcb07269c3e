package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
)

// The words of this suite: what its specs say about profiles and
// PluginConfigs. Each object goes when its spec ends.

// aProfile creates a profile of a name of its own.
func aProfile(ctx context.Context, edits ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "batch-"}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	return apitest.Created(ctx, admin, p)
}

// aPluginConfig creates arguments for NodeResourcesFit under a name of its own.
func aPluginConfig(ctx context.Context, args any) *v1alpha1.PluginConfig {
	GinkgoHelper()
	return apitest.Created(ctx, admin, fit(metav1.ObjectMeta{GenerateName: "binpack-"}, args))
}

func fit(metadata metav1.ObjectMeta, args any) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metadata,
		Spec:       v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit", Args: raw(args)},
	}
}

// strategy are NodeResourcesFit's arguments with a scoring strategy of a type.
func strategy(kind string) any {
	return map[string]any{"scoringStrategy": map[string]any{
		"type": kind, "resources": []any{map[string]any{"name": "cpu", "weight": 1}},
	}}
}

func raw(value any) runtime.RawExtension {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: text}
}

// edit changes a spec as `kubectl edit` does, and waits for nothing.
func edit(ctx context.Context, p *v1alpha1.SchedulingProfile, change func(*v1alpha1.SchedulingProfileSpec)) {
	GinkgoHelper()
	apitest.Change(ctx, admin, p, func(p *v1alpha1.SchedulingProfile) { change(&p.Spec) })
}

func editConfig(ctx context.Context, c *v1alpha1.PluginConfig, args any) {
	GinkgoHelper()
	apitest.Change(ctx, admin, c, func(c *v1alpha1.PluginConfig) { c.Spec.Args = raw(args) })
}

// Edits of a profile's spec.

func scoring(plugin string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{Score: enabled(plugin)}
	}
}

func afterBind(plugin string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{PostBind: enabled(plugin)}
	}
}

func enabled(plugin string) v1alpha1.PluginSet {
	return v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}}}
}

func noPlugins(s *v1alpha1.SchedulingProfileSpec) { s.Plugins = nil }

func inState(state v1alpha1.ProfileState) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.State = state }
}

func fitFrom(config string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.PluginConfig = []v1alpha1.PluginArguments{{
			Name: "NodeResourcesFit", ConfigRef: &v1alpha1.PluginConfigReference{Name: config},
		}}
	}
}

func publishingEvery(seconds int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.PublishSeconds = &seconds }
}

// now reads an object again and returns its conditions as "type status
// reason", all of them about the generation as it is.
func now(ctx context.Context, object client.Object) func(g Gomega) []string {
	return func(g Gomega) []string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		var out []string
		for _, c := range conditions(object) {
			g.Expect(c.ObservedGeneration).To(Equal(object.GetGeneration()), c.Type)
			out = append(out, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason))
		}
		return out
	}
}

func conditions(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.SchedulingProfile:
		return object.Status.Conditions
	case *v1alpha1.PluginConfig:
		return object.Status.Conditions
	}
	return nil
}

// message is what a condition of an object says, as it was read last.
func message(object client.Object, condition v1alpha1.ConditionType) string {
	if c := meta.FindStatusCondition(conditions(object), string(condition)); c != nil {
		return c.Message
	}
	return ""
}

// all is what a profile's conditions are when all is well.
var all = []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"}

func expectReady(ctx context.Context, p *v1alpha1.SchedulingProfile) {
	GinkgoHelper()
	Eventually(now(ctx, p)).Should(ConsistOf(all))
}

// minute bounds one spec.
const minute = SpecTimeout(time.Minute)
