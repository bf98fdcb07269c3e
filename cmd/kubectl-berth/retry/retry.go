// Package retry is `kubectl berth retry`: it makes Berth build the spec of a profile again
// that is not running.
package retry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// fieldManager is the owner of the annotation.
const fieldManager = "kubectl-berth"

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "retry", Arguments: "PROFILE",
	Short: "Build the spec of a profile again that is not running",
	Long: `Sets the annotation berth.dev/retry on the profile. Berth then builds its spec at once,
also if it is blamed for crashes of the scheduler (CrashedOnProbation): the recorded
crashes are cleared and counted from zero. A spec that is rejected must be changed
instead, and one that waits for approval must be approved.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list", "patch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
	},
	Examples: []verb.Example{
		{Description: "Retry a profile that could not be built", Command: "kubectl berth retry batch"},
		{Description: "Retry after the cause of a crash is fixed, and wait", Command: "kubectl berth retry batch && kubectl wait --for=condition=Programmed sprof/batch"},
	},
	OnSuccess: "a retry is requested, or the spec is running",
}

type options struct{ verb.Env }

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) })
	cmd.ValidArgsFunction = complete.FirstArgument(complete.Profiles(env, ""))
	return cmd
}

func (o *options) run(ctx context.Context, name string) error {
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	p, err := c.Profile(ctx, name)
	if err != nil {
		return err
	}
	if programmed := p.Status.Programmed; programmed != nil && currentCondition(p, v1alpha1.ConditionProgrammed, metav1.ConditionTrue) != nil {
		return o.printLine(fmt.Sprintf("SchedulingProfile %s is running its spec, generation %d, hash %s: nothing to retry", name, programmed.Generation, programmed.Hash))
	}
	if err := retryCannotHelp(p); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         p.UID,
		"annotations": map[string]string{v1alpha1.AnnotationRetry: o.Now().UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	if err := c.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("SchedulingProfile %s: %w", name, cluster.UserError(err))
	}
	return o.printLine(fmt.Sprintf("SchedulingProfile %s: retry of generation %d requested. Wait for it with: kubectl wait --for=condition=Programmed sprof/%s", name, p.Generation, name))
}

func (o *options) printLine(text string) error {
	_, err := fmt.Fprintln(o.Out, show.Wrap(text, "", "  "))
	return err
}

// retryCannotHelp returns why a retry would change nothing; nil if it may help.
func retryCannotHelp(p *v1alpha1.SchedulingProfile) error {
	for _, t := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs} {
		if c := currentCondition(p, t, metav1.ConditionFalse); c != nil {
			return fmt.Errorf("SchedulingProfile %s: a retry would not help, fix the spec: %s", p.Name, c.Message)
		}
	}
	if c := currentCondition(p, v1alpha1.ConditionProgrammed, metav1.ConditionFalse); c != nil && c.Reason == string(v1alpha1.ReasonAwaitingApproval) {
		return fmt.Errorf("SchedulingProfile %s: a retry would not help, approve the spec: %s", p.Name, c.Message)
	}
	return nil
}

// currentCondition returns the condition of a type if it has this status and is about the
// current generation; nil otherwise.
func currentCondition(p *v1alpha1.SchedulingProfile, t v1alpha1.ConditionType, status metav1.ConditionStatus) *metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, string(t))
	if c == nil || c.Status != status || c.ObservedGeneration != p.Generation {
		return nil
	}
	return c
}
