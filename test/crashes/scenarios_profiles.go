package crashes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
)

// Scenarios of profiles.

var (
	getOptions    = metav1.GetOptions{}
	patchOptions  = metav1.PatchOptions{}
	deleteOptions = metav1.DeleteOptions{}
)

const mergePatch = types.MergePatchType

// exports exports the profile for cluster-autoscaler.
func (e *env) exports(s *v1alpha1.SchedulingProfileSpec) {
	s.Exports.Autoscaler = &v1alpha1.AutoscalerExport{ConfigMap: e.exportName()}
}

func (e *env) exportName() string { return e.id + "-export" }

// nodesOfPool lets pods run on nodes of a pool only.
func nodesOfPool(s *v1alpha1.SchedulingProfileSpec) {
	s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeAffinity", Args: rawJSON(map[string]any{"addedAffinity": map[string]any{
		"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{map[string]any{
			"matchExpressions": []any{map[string]any{"key": "pool", "operator": "In", "values": []any{"chosen"}}},
		}}},
	}})}}
}

// share sets percentageOfNodesToScore, which makes another hash.
func share(percent int) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = int32(percent) }
}

// exported waits until the ConfigMap holds what runs.
func (e *env) exported(ctx context.Context) error {
	return until(ctx, "the export", func(ctx context.Context) error {
		p, err := operator.Profile(ctx, e.cp, e.profile)
		if err != nil {
			return err
		}
		m, err := e.cp.Client().CoreV1().ConfigMaps(operator.Namespace).Get(ctx, e.exportName(), getOptions)
		if err != nil {
			return err
		}
		for _, text := range m.Data {
			if strings.Contains(text, p.Status.Programmed.Hash) {
				return nil
			}
		}
		return fmt.Errorf("the ConfigMap does not name %s", p.Status.Programmed.Hash)
	})
}

// actProfileStarts creates a profile with a PluginConfig and an export.
func actProfileStarts(ctx context.Context, e *env) error {
	config := &v1alpha1.PluginConfig{ObjectMeta: metav1.ObjectMeta{Name: e.id}}
	config.Spec.Plugin = "NodeResourcesFit"
	config.Spec.Args = *rawJSON(map[string]any{"scoringStrategy": map[string]any{
		"type": "MostAllocated", "resources": []any{map[string]any{"name": "cpu", "weight": 1}},
	}})
	if err := e.create(ctx, config, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	refers := func(s *v1alpha1.SchedulingProfileSpec) {
		s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", ConfigRef: &v1alpha1.PluginConfigReference{Name: e.id}}}
	}
	if err := e.startProfile(ctx, refers, e.exports); err != nil {
		return err
	}
	err := until(ctx, "the conditions of the PluginConfig", func(ctx context.Context) error {
		if err := e.admin.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		return expectCondition(config.Status.Conditions, config.Generation, v1alpha1.ConditionProgrammed, metav1.ConditionTrue)
	})
	if err != nil {
		return err
	}
	if err := e.exported(ctx); err != nil {
		return err
	}
	if err := e.createPods(ctx, e.pod("web", 1)); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web")
}

// prepareSwap runs a profile that refuses two pods.
func prepareSwap(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	if err := e.startProfile(ctx, nodesOfPool, e.exports); err != nil {
		return err
	}
	if err := e.createPods(ctx, e.pod("web-0", 1), e.pod("web-1", 1)); err != nil {
		return err
	}
	return e.refused(ctx, v1.PodReasonUnschedulable, "web-0", "web-1")
}

func actSwapAccepted(ctx context.Context, e *env) error {
	if err := e.startProfile(ctx, e.exports); err != nil {
		return err
	}
	if err := e.boundByRunning(ctx, "web-0", "web-1"); err != nil {
		return err
	}
	return e.exported(ctx)
}

// actSwapRefused applies a spec that is refused, and then lets the spec that runs bind the
// pods.
func actSwapRefused(ctx context.Context, e *env) error {
	missing := func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Missing"}}}}
	}
	if err := e.apply(ctx, missing, e.exports); err != nil {
		return err
	}
	if err := e.specRefused(ctx, v1alpha1.ConditionAccepted); err != nil {
		return err
	}
	label := []byte(`{"metadata":{"labels":{"pool":"chosen"}}}`)
	if _, err := e.cp.Client().CoreV1().Nodes().Patch(ctx, e.id+"-n0", mergePatch, label, patchOptions); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web-0", "web-1")
}

// specRefused waits until a condition of the profile is False for its generation.
func (e *env) specRefused(ctx context.Context, condition v1alpha1.ConditionType) error {
	return until(ctx, "the refusal of the spec", func(ctx context.Context) error {
		p, err := operator.Profile(ctx, e.cp, e.profile)
		if err != nil {
			return err
		}
		if err := expectCondition(p.Status.Conditions, p.Generation, condition, metav1.ConditionFalse); err != nil {
			return err
		}
		if p.Status.Programmed == nil || !e.hashes[p.Status.Programmed.Hash] {
			return fmt.Errorf("what ran before does not run any more: %+v", p.Status.Programmed)
		}
		return nil
	})
}

// prepareRollback runs one spec, and then another one with an export.
func prepareRollback(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	if err := e.startProfile(ctx, share(50)); err != nil {
		return err
	}
	if err := e.startProfile(ctx, share(51), e.exports); err != nil {
		return err
	}
	return e.exported(ctx)
}

func actRollback(ctx context.Context, e *env) error {
	if err := e.startProfile(ctx, share(50)); err != nil {
		return err
	}
	err := until(ctx, "the end of the export", func(ctx context.Context) error {
		_, err := e.cp.Client().CoreV1().ConfigMaps(operator.Namespace).Get(ctx, e.exportName(), getOptions)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("the ConfigMap exists"))
	})
	if err != nil {
		return err
	}
	if err := e.createPods(ctx, e.pod("web", 1)); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web")
}

// maxRevisions is how many revisions of a profile are kept.
const maxRevisions = 10

func prepareManySwaps(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	for i := range maxRevisions {
		if err := e.startProfile(ctx, share(50+i)); err != nil {
			return err
		}
	}
	return nil
}

func actManySwaps(ctx context.Context, e *env) error {
	if err := e.startProfile(ctx, share(90)); err != nil {
		return err
	}
	return until(ctx, "the end of the oldest revision", func(ctx context.Context) error {
		revisions, err := e.revisions(ctx)
		if err != nil {
			return err
		}
		if len(revisions) > maxRevisions {
			return fmt.Errorf("there are %d revisions", len(revisions))
		}
		return nil
	})
}

// prepareProfileReturns is prepareSwap with pods that fit without the profile's arguments.
func prepareProfileReturns(ctx context.Context, e *env) error { return prepareSwap(ctx, e) }

// actProfileReturns deletes the profile, whose pods are held, and creates it again.
func actProfileReturns(ctx context.Context, e *env) error {
	if err := e.delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: e.profile}}); err != nil {
		return err
	}
	if err := e.refused(ctx, "ProfileDeleted", "web-0", "web-1"); err != nil {
		return err
	}
	if err := e.startProfile(ctx); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web-0", "web-1")
}

// actPause pauses the profile, whose pods are held, and lets it run again with another spec.
func actPause(ctx context.Context, e *env) error {
	pauses := func(s *v1alpha1.SchedulingProfileSpec) { s.State = v1alpha1.StatePaused }
	if err := e.apply(ctx, nodesOfPool, pauses); err != nil {
		return err
	}
	if err := e.refused(ctx, "ProfilePaused", "web-0", "web-1"); err != nil {
		return err
	}
	if err := e.startProfile(ctx); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web-0", "web-1")
}

func prepareFirstProfile(ctx context.Context, e *env) error {
	e.profile = defaultProfile
	return e.create(ctx, e.node("n0", 4).Obj())
}

// actFirstProfile deletes the last profile: then the manager creates one.
func actFirstProfile(ctx context.Context, e *env) error {
	if err := e.delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: keeper}}); err != nil {
		return err
	}
	if err := e.runs(ctx); err != nil {
		return err
	}
	if err := e.createPods(ctx, e.pod("web", 1)); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web")
}

// restoreKeeper creates the profile again that always exists.
func restoreKeeper(ctx context.Context, e *env) error {
	return operator.ApplyProfile(ctx, e.cp, keeper, v1alpha1.SchedulingProfileSpec{})
}
