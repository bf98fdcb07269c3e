// Package retry is `kubectl berth retry`: it has the spec of a profile tried again
// that does not run.
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

// fieldManager owns the annotation.
const fieldManager = "kubectl-berth"

// Verb describes it.
var Verb = verb.Verb{
	Name: "retry", Arguments: "PROFILE",
	Short: "Try the spec of a profile again that does not run",
	Long: `Sets the annotation berth.dev/retry on the profile. Berth then builds its spec at
once, also where it is blamed for crashes of the scheduler (CrashedOnProbation): what
speaks against the spec is cleared, and counted anew. A spec that is refused, or waits
for approval, has to be changed or approved instead.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list", "patch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
	},
	Examples: []verb.Example{
		{Description: "Build a profile at once that could not be built", Command: "kubectl berth retry batch"},
		{Description: "The node that killed the scheduler is mended: try the profile again, and wait", Command: "kubectl berth retry batch && kubectl wait --for=condition=Programmed sprof/batch"},
	},
	OnSuccess: "it is tried again, or runs as written",
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
	c, err := o.Open()
	if err != nil {
		return err
	}
	p, err := c.Profile(ctx, name)
	if err != nil {
		return err
	}
	if runs := p.Status.Programmed; runs != nil && currentCondition(p, v1alpha1.ConditionProgrammed, metav1.ConditionTrue) != nil {
		return o.printLine(fmt.Sprintf("SchedulingProfile %s runs as it is written, generation %d with hash %s; there is nothing to try again", name, runs.Generation, runs.Hash))
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
	return o.printLine(fmt.Sprintf("SchedulingProfile %s, generation %d, is tried again. To wait until it runs: kubectl wait --for=condition=Programmed sprof/%s", name, p.Generation, name))
}

func (o *options) printLine(text string) error {
	_, err := fmt.Fprintln(o.Out, show.Wrap(text, "", "  "))
	return err
}

// hopeless says why trying again changes nothing; nil where it may.
func retryCannotHelp(p *v1alpha1.SchedulingProfile) error {
	for _, t := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs} {
		if c := currentCondition(p, t, metav1.ConditionFalse); c != nil {
			return fmt.Errorf("SchedulingProfile %s: trying again cannot help, change what is wrong: %s", p.Name, c.Message)
		}
	}
	if c := currentCondition(p, v1alpha1.ConditionProgrammed, metav1.ConditionFalse); c != nil && c.Reason == string(v1alpha1.ReasonAwaitingApproval) {
		return fmt.Errorf("SchedulingProfile %s: trying again cannot help, it waits for approval: %s", p.Name, c.Message)
	}
	return nil
}

// is returns a condition that has a status and speaks of the profile as it is
// written; nil where there is none.
func currentCondition(p *v1alpha1.SchedulingProfile, t v1alpha1.ConditionType, status metav1.ConditionStatus) *metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, string(t))
	if c == nil || c.Status != status || c.ObservedGeneration != p.Generation {
		return nil
	}
	return c
}
