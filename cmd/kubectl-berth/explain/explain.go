// Package explain is `kubectl berth explain`: it says why a pod is on its node, or why it is
// pending.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "explain", Arguments: "pod/NAME | KIND/NAME [-n NAMESPACE] [-o json|yaml] | pod/NAME --matrix [--limit N] [-o wide|json|yaml]",
	Short: "Explain why a pod is on its node or pending; or why the pods of a workload are",
	Long: `For a pod that Berth bound, explain prints the decision from the annotation
berth.dev/decision and, if the profile sets decisions.detail: Nodes, how many nodes were
evaluated and feasible, and the weighted scores of the best nodes by plugin. Users who may
patch the pod may have changed that annotation: it is information, not evidence. For a
pending pod, it prints the SchedulingDecision: which plugins reject the pod, the closest
nodes and what they lack, and the events that requeue the pod. For a pod of another
scheduler, it prints the name of that scheduler.

For a pod that is scheduled with a group, explain prints how many pods of the group fit,
and what the next one lacks on the closest nodes: the same for each pod of the group.

KIND may also be deploy, rs, sts, ds, job, cronjob or rc. explain then prints where the
pods of the workload are, and the pending pods grouped by reason, with details of the
oldest pod of each group. Pods that are scheduled together have one reason. It also prints
why pods could not be created.

--matrix runs every plugin on every node now, on a copy of what you may read. Unlike the
scheduler, it does not stop at the first plugin that rejects a node. A pod that is bound
is evaluated as if it were pending. Plugins that reject no node, or score all nodes alike,
are listed below the tables; -o wide has a column for each. If there are more nodes than
--limit, nodes with equal results share a row: "n7 +41" is n7 and 41 more. -o yaml and
-o json have every node. Extenders are not called; a note names those that would be.
Nothing is written.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"get"}, Resource: "pods", Scope: verb.InNamespace},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingdecisions", Scope: verb.InNamespace, Purpose: "for pending pods"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for what is running now, and pods of other schedulers"},
		{Verbs: []string{"list"}, Resource: "pods", Scope: verb.InNamespace, Purpose: "for a workload"},
		{Verbs: []string{"get"}, Group: "apps", Resource: "deployments", Scope: verb.InNamespace, Purpose: "for deploy/NAME"},
		{Verbs: []string{"get", "list"}, Group: "apps", Resource: "replicasets", Scope: verb.InNamespace, Purpose: "for deploy/NAME and rs/NAME"},
		{Verbs: []string{"get"}, Group: "apps", Resource: "statefulsets", Scope: verb.InNamespace, Purpose: "for sts/NAME"},
		{Verbs: []string{"get"}, Group: "apps", Resource: "daemonsets", Scope: verb.InNamespace, Purpose: "for ds/NAME"},
		{Verbs: []string{"get", "list"}, Group: "batch", Resource: "jobs", Scope: verb.InNamespace, Purpose: "for job/NAME and cronjob/NAME"},
		{Verbs: []string{"get"}, Group: "batch", Resource: "cronjobs", Scope: verb.InNamespace, Purpose: "for cronjob/NAME"},
		{Verbs: []string{"get"}, Resource: "replicationcontrollers", Scope: verb.InNamespace, Purpose: "for rc/NAME"},
		{Verbs: []string{"list"}, Resource: "nodes", Purpose: "for --matrix"},
		{Verbs: []string{"list"}, Resource: "pods", Purpose: "for --matrix"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for --matrix with the running revision"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for --matrix without a stored revision"},
		{Verbs: []string{"list"}, Resource: "namespaces", Purpose: "for --matrix: namespaceSelectors and allowedNamespaces"},
		{Verbs: []string{"list"}, Resource: "services", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"get"}, Group: "scheduling.k8s.io", Resource: "podgroups", Scope: verb.InNamespace, Purpose: "for --matrix: pods of a PodGroup"},
	}, slices.Concat(state.StoragePermissions("for --matrix: pods with volumes", "list"), state.DevicePermissions("for --matrix: pods with devices", "list"))...),
	Examples: []verb.Example{
		{Description: "Why is a pod on its node?", Command: "kubectl berth explain pod/web-1"},
		{Description: "Why is a pod in another namespace pending?", Command: "kubectl berth explain web-1 -n shop"},
		{Description: "Why are some pods of a Deployment pending?", Command: "kubectl berth explain deploy/web -n shop"},
		{Description: "What does each plugin say about each node now?", Command: "kubectl berth explain pod/web-1 --matrix"},
	},
}

type options struct {
	verb.Env
	matrix bool
	limit  int
	output *show.Format
	// notes are printed below the matrix.
	notes []string
	// warn reports what could not be read, in a sentence.
	warn func(text string)
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env, output: show.NewFormat("wide")}
	o.warn = func(text string) { fmt.Fprintln(o.ErrOut, show.Wrap(text, "", "  ")) }
	cmd := Verb.Command(cobra.RangeArgs(1, 2), func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) })
	flags := cmd.Flags()
	flags.BoolVar(&o.matrix, "matrix", false, "run every plugin on every node, now")
	flags.IntVar(&o.limit, "limit", 20, "with --matrix, the maximum number of rows; 0 for all")
	o.output.AddFlag(cmd, "")
	cmd.ValidArgsFunction = completeObject(env)
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.All()...))
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	kind, name, err := parseObject(args)
	if err != nil {
		return err
	}
	if err := o.output.Check(); err != nil {
		return err
	}
	switch {
	case o.output.Is("wide") && !o.matrix:
		return errors.New("-o wide: requires --matrix")
	case o.limit < 0:
		return fmt.Errorf("--limit: Invalid value: %d: must be greater than or equal to 0", o.limit)
	case o.matrix && kind.name != "Pod":
		return fmt.Errorf("--matrix: takes one pod, as pod/NAME; `kubectl berth explain %s/%s` lists the pending ones", kind.aliases[0], name)
	}
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	if kind.name != "Pod" {
		return o.explainWorkload(ctx, c, kind, name)
	}
	pod, err := getPod(ctx, c, client.ObjectKey{Namespace: c.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %q not found in namespace %q; use -n for another namespace", name, c.Namespace)
	}
	if err != nil {
		return err
	}
	if o.matrix {
		return o.explainMatrix(ctx, c, pod)
	}
	return o.explainPod(ctx, c, pod)
}

// explainPod explains one pod.
func (o *options) explainPod(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	info := o.readProfiles(ctx, c).find(pod)
	e := o.explanation(ctx, c, pod, info)
	if o.output.Structured() {
		return o.output.Print(o.Out, e)
	}
	text, err := o.text(pod, info, e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.Out, text)
	return err
}

// text returns what is printed of an explanation.
func (o *options) text(pod *corev1.Pod, info profileInfo, e Explanation) (string, error) {
	if pod.Spec.NodeName != "" {
		return o.explainBound(pod, info)
	}
	return o.explainPending(pod, info, e), nil
}

// parseObject parses "KIND/NAME", "KIND NAME" or the "NAME" of a pod.
func parseObject(args []string) (*kind, string, error) {
	word, name, slash := strings.Cut(args[0], "/")
	switch {
	case !slash && len(args) == 1:
		return &kinds[0], word, nil
	case !slash:
		name = args[1]
	case len(args) == 2:
		return nil, "", fmt.Errorf("only one object can be explained at a time: unexpected argument %q", args[1])
	}
	k := kindOf(word)
	if k == nil {
		return nil, "", fmt.Errorf("%q: unsupported kind: must be one of pod/NAME, deploy/NAME, rs/NAME, sts/NAME, ds/NAME, job/NAME, "+
			"cronjob/NAME or rc/NAME", args[0])
	}
	return k, name, nil
}

// profileInfo is what is known of the profile that a pod asks for.
type profileInfo struct {
	// known: the profiles could be read. Without that, nothing else is known.
	known   bool
	profile *v1alpha1.SchedulingProfile
	names   []string
}

// find returns what is known of the pod's profile.
func (w profileLookup) find(pod *corev1.Pod) profileInfo {
	found := profileInfo{known: w.known}
	for i := range w.profiles {
		found.names = append(found.names, w.profiles[i].Name)
		if w.profiles[i].Name == pod.Spec.SchedulerName {
			found.profile = &w.profiles[i]
		}
	}
	return found
}

// profileLookup are the profiles, if they could be read.
type profileLookup struct {
	known    bool
	profiles []v1alpha1.SchedulingProfile
}

// readProfiles reads the profiles. A user who may read a pod may have no permission to read
// profiles, so that is not an error.
func (o *options) readProfiles(ctx context.Context, c *cluster.Cluster) profileLookup {
	profiles, err := c.Profiles(ctx)
	if err != nil {
		o.warn("Cannot read the SchedulingProfiles: " + err.Error())
		return profileLookup{}
	}
	return profileLookup{known: true, profiles: profiles}
}

// formatFields formats pairs of a label and a text as aligned lines. Empty texts are left
// out.
func formatFields(pairs ...string) string {
	const column = "           "
	lines := ""
	for i := 0; i < len(pairs); i += 2 {
		if text := pairs[i+1]; text != "" {
			lines += pairs[i] + column[len(pairs[i]):] + strings.TrimPrefix(show.Wrap(text, column, ""), column) + "\n"
		}
	}
	return lines
}
