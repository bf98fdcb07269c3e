// Package explain is `kubectl berth explain`: why is this pod where it is, or why
// does it wait?
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

// Verb describes it.
var Verb = verb.Verb{
	Name: "explain", Arguments: "pod/NAME [-n NAMESPACE] [--matrix [--limit N] [-o wide|yaml|json]]",
	Short: "Say why a pod is where it is, or why it waits",
	Long: `Of a pod that Berth bound: what decided, how many nodes were asked and fitted, and
what each plugin gave the best nodes, weighted, from the annotation berth.dev/decision.
Of one that waits: its SchedulingDecision, which says who refuses it, what is missing
where least is, and what wakes it. Of one that is not Berth's: whose it is.

--matrix asks now: every plugin about every node, on a copy of what you may read, as
the scheduler itself would ask, but not only as far as the first that refuses. A pod
that has a node is asked about as if it were not there. Plugins that refuse no node,
or give every node the same, are named in a sentence; -o wide has a column for each.
Past --limit, nodes of which the same is said share a row: "n7 +41" is n7 and 41 more.
-o yaml and -o json have every node. Nothing is written.`,
	Rights: append([]verb.Right{
		{Verbs: []string{"get"}, Resource: "pods", In: verb.InNamespace},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingdecisions", In: verb.InNamespace, For: "for why it waits"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", For: "for whether that runs still, and whose a pod is"},
		{Verbs: []string{"list"}, Resource: "nodes", For: "for --matrix"},
		{Verbs: []string{"list"}, Resource: "pods", For: "for --matrix"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", In: verb.InBerth, For: "for --matrix by what runs, rather than what is written"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", For: "for --matrix where no revision says the arguments"},
		{Verbs: []string{"list"}, Resource: "namespaces", For: "for --matrix: namespaceSelectors and allowedNamespaces"},
		{Verbs: []string{"list"}, Resource: "services", For: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", For: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", For: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", For: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "resource.k8s.io", Resource: "deviceclasses", For: "for --matrix: resources that devices back"},
	}, state.StorageRights("for --matrix: pods with volumes", "list")...),
	Examples: []verb.Example{
		{Says: "Why is it there?", Command: "kubectl berth explain pod/web-1"},
		{Says: "And in another namespace?", Command: "kubectl berth explain web-1 -n shop"},
		{Says: "What would each plugin say of each node now?", Command: "kubectl berth explain pod/web-1 --matrix"},
	},
}

type options struct {
	verb.Env
	matrix bool
	limit  int
	output string
	// notes are what is to be known of the matrix.
	notes []string
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.RangeArgs(1, 2), func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) })
	flags := cmd.Flags()
	flags.BoolVar(&o.matrix, "matrix", false, "ask every plugin about every node, now")
	flags.IntVar(&o.limit, "limit", 20, "with --matrix, the most rows of a table; 0: all")
	flags.StringVarP(&o.output, "output", "o", "", "With --matrix, the output format. One of: (wide, json, yaml).")
	cmd.ValidArgsFunction = completeObject(env)
	complete.Flag(cmd, "output", complete.Words("wide", "json", "yaml"))
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	name, err := podName(args)
	if err != nil {
		return err
	}
	switch {
	case o.output != "" && !o.matrix:
		return errors.New("-o: goes with --matrix")
	case !slices.Contains([]string{"", "wide", "json", "yaml"}, o.output):
		return fmt.Errorf("-o: no format %q: it is one of wide, json, yaml", o.output)
	case o.limit < 0:
		return fmt.Errorf("--limit: must be at least 0, is %d", o.limit)
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	pod := &corev1.Pod{}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no pod %q in namespace %q; -n names another", name, c.Namespace)
	}
	if err != nil {
		return cluster.Plain(err)
	}
	if o.matrix {
		return o.everywhere(ctx, c, pod)
	}
	w := o.whose(ctx, c, pod)
	text := ""
	if pod.Spec.NodeName != "" {
		text, err = o.bound(pod, w)
	} else {
		text = o.waiting(pod, w, o.decision(ctx, c, pod))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.Out, text)
	return err
}

// podName reads "pod/NAME", "pod NAME" or "NAME".
func podName(args []string) (string, error) {
	kind, name, slash := strings.Cut(args[0], "/")
	switch {
	case !slash && len(args) == 1:
		return kind, nil
	case !slash:
		name = args[1]
	case len(args) == 2:
		return "", fmt.Errorf("one pod is explained at a time: %q is one too many", args[1])
	}
	if kind != "pod" && kind != "pods" && kind != "po" {
		return "", fmt.Errorf("%q is no pod: only pods are explained, as pod/NAME", args[0])
	}
	return name, nil
}

// owner is what is known of the scheduler that a pod asks for.
type owner struct {
	// known says that the profiles could be read; without it, nothing else is.
	known   bool
	profile *v1alpha1.SchedulingProfile
	names   []string
}

// whose looks for the profile that a pod asks for. Who may read a pod may not be
// allowed to read profiles, so that is no error.
func (o *options) whose(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) owner {
	profiles, err := c.Profiles(ctx)
	if err != nil {
		fmt.Fprintln(o.ErrOut, show.Wrap("Left out is what the profiles say: "+err.Error(), "", "  "))
		return owner{}
	}
	w := owner{known: true, names: cluster.Names(profiles)}
	for i := range profiles {
		if profiles[i].Name == pod.Spec.SchedulerName {
			w.profile = &profiles[i]
		}
	}
	return w
}

// facts are pairs of a name and what is said about it, aligned; what is empty is
// left out.
func facts(pairs ...string) string {
	const column = "           "
	text := ""
	for i := 0; i < len(pairs); i += 2 {
		if said := pairs[i+1]; said != "" {
			text += pairs[i] + column[len(pairs[i]):] + strings.TrimPrefix(show.Wrap(said, column, ""), column) + "\n"
		}
	}
	return text
}
