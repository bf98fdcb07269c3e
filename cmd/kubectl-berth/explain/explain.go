// Package explain is `kubectl berth explain`: why is this pod where it is, or why
// does it wait?
package explain

import (
	"context"
	"errors"
	"fmt"
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
	Name: "explain", Arguments: "pod/NAME | KIND/NAME [-n NAMESPACE] [-o json|yaml] | pod/NAME --matrix [--limit N] [-o wide|json|yaml]",
	Short: "Say why a pod is where it is, or why it waits; or why the pods of a workload do",
	Long: `Of a pod that Berth bound: what decided, from the annotation berth.dev/decision, and,
where the profile says decisions.detail: Nodes, how many nodes were asked and fitted, and
what each plugin gave the best nodes, weighted. Whoever may patch the pod may have changed
that annotation: it is information, not evidence.
Of one that waits: its SchedulingDecision, which says who refuses it, what is missing
where least is, and what wakes it. Of one that is not Berth's: whose it is.

KIND is deploy, rs, sts, ds, job, cronjob or rc, too: then where its pods are, and of
those that wait each group with one reason, explained by the pod that waits longest.
Pods that it could not create are no pods that wait: why is said, too.

--matrix asks now: every plugin about every node, on a copy of what you may read, as
the scheduler itself would ask, but not only as far as the first that refuses. A pod
that has a node is asked about as if it were not there. Plugins that refuse no node,
or give every node the same, are named in a sentence; -o wide has a column for each.
Past --limit, nodes of which the same is said share a row: "n7 +41" is n7 and 41 more.
-o yaml and -o json have every node. Nothing is written.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"get"}, Resource: "pods", Scope: verb.InNamespace},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingdecisions", Scope: verb.InNamespace, Purpose: "for why it waits"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for whether that runs still, and whose a pod is"},
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
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for --matrix by what runs, rather than what is written"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for --matrix where no revision says the arguments"},
		{Verbs: []string{"list"}, Resource: "namespaces", Purpose: "for --matrix: namespaceSelectors and allowedNamespaces"},
		{Verbs: []string{"list"}, Resource: "services", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for --matrix: default spreading"},
		{Verbs: []string{"list"}, Group: "resource.k8s.io", Resource: "deviceclasses", Purpose: "for --matrix: resources that devices back"},
	}, state.StoragePermissions("for --matrix: pods with volumes", "list")...),
	Examples: []verb.Example{
		{Description: "Why is it there?", Command: "kubectl berth explain pod/web-1"},
		{Description: "And in another namespace?", Command: "kubectl berth explain web-1 -n shop"},
		{Description: "Why do some pods of a Deployment wait?", Command: "kubectl berth explain deploy/web -n shop"},
		{Description: "What would each plugin say of each node now?", Command: "kubectl berth explain pod/web-1 --matrix"},
	},
}

type options struct {
	verb.Env
	matrix bool
	limit  int
	output *show.Format
	// notes are what is to be known of the matrix.
	notes []string
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env, output: show.NewFormat("wide")}
	cmd := Verb.Command(cobra.RangeArgs(1, 2), func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) })
	flags := cmd.Flags()
	flags.BoolVar(&o.matrix, "matrix", false, "ask every plugin about every node, now")
	flags.IntVar(&o.limit, "limit", 20, "with --matrix, the most rows of a table; 0: all")
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
		return errors.New("-o wide: goes with --matrix")
	case o.limit < 0:
		return fmt.Errorf("--limit: must be at least 0, is %d", o.limit)
	case o.matrix && kind.name != "Pod":
		return fmt.Errorf("--matrix: is about one pod, as pod/NAME: `kubectl berth explain %s/%s` names those that wait", kind.aliases[0], name)
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	if kind.name != "Pod" {
		return o.explainWorkload(ctx, c, kind, name)
	}
	pod := &corev1.Pod{}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no pod %q in namespace %q; -n names another", name, c.Namespace)
	}
	if err != nil {
		return cluster.UserError(err)
	}
	if o.matrix {
		return o.explainMatrix(ctx, c, pod)
	}
	return o.explainPod(ctx, c, pod)
}

// pod explains one pod.
func (o *options) explainPod(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	w := o.readProfiles(ctx, c)
	var d *v1alpha1.SchedulingDecisionStatus
	if pod.Spec.NodeName == "" {
		d = o.schedulingDecision(ctx, c, pod)
	}
	if o.output.Structured() {
		return o.output.Print(o.Out, explanationOf(pod, w.find(pod), d))
	}
	text, err := "", error(nil)
	if pod.Spec.NodeName != "" {
		text, err = o.explainBound(pod, w.find(pod))
	} else {
		text = o.explainPending(pod, w.find(pod), d)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.Out, text)
	return err
}

// object reads "KIND/NAME", "KIND NAME" or the "NAME" of a pod.
func parseObject(args []string) (*kind, string, error) {
	word, name, slash := strings.Cut(args[0], "/")
	switch {
	case !slash && len(args) == 1:
		return &kinds[0], word, nil
	case !slash:
		name = args[1]
	case len(args) == 2:
		return nil, "", fmt.Errorf("one object is explained at a time: %q is one too many", args[1])
	}
	k := kindOf(word)
	if k == nil {
		return nil, "", fmt.Errorf("%q: only pods are explained, and what makes them, as pod/NAME, deploy/NAME, rs/NAME, sts/NAME, ds/NAME, job/NAME, "+
			"cronjob/NAME or rc/NAME", args[0])
	}
	return k, name, nil
}

// owner is what is known of the scheduler that a pod asks for.
type profileInfo struct {
	// known says that the profiles could be read; without it, nothing else is.
	known   bool
	profile *v1alpha1.SchedulingProfile
	names   []string
}

// of is what is known of the scheduler that a pod asks for.
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

// owners are the profiles, where they could be read.
type profileLookup struct {
	known    bool
	profiles []v1alpha1.SchedulingProfile
}

// whose reads the profiles. Who may read a pod may not be allowed to read profiles, so
// that is no error.
func (o *options) readProfiles(ctx context.Context, c *cluster.Cluster) profileLookup {
	profiles, err := c.Profiles(ctx)
	if err != nil {
		fmt.Fprintln(o.ErrOut, show.Wrap("Left out is what the profiles say: "+err.Error(), "", "  "))
		return profileLookup{}
	}
	return profileLookup{known: true, profiles: profiles}
}

// facts are pairs of a name and what is said about it, aligned; what is empty is
// left out.
func formatFields(pairs ...string) string {
	const column = "           "
	text := ""
	for i := 0; i < len(pairs); i += 2 {
		if said := pairs[i+1]; said != "" {
			text += pairs[i] + column[len(pairs[i]):] + strings.TrimPrefix(show.Wrap(said, column, ""), column) + "\n"
		}
	}
	return text
}
