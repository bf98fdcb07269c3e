// Package try is `kubectl berth try`: it says which nodes pods would be scheduled to, or why
// they would stay pending. It runs the scheduler on a copy of the live state and writes
// nothing.
package try

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// maxReplicas is the most pods that are tried.
const maxReplicas = 100_000

type options struct {
	verb.Env
	files        []string
	replicas     int
	profile      string
	profileFiles []string
	withoutNodes []string
	withNodes    []string
	output       string
	cluster      *cluster.Cluster
	// notes are printed with the result, in order.
	notes []string
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "file with a Pod or a workload; - for standard input")
	flags.IntVar(&o.replicas, "replicas", 0, "how many pods to schedule one after another; 0 for the number in the file")
	flags.StringVar(&o.profile, "profile", "", "the SchedulingProfile to use instead of spec.schedulerName")
	flags.StringSliceVar(&o.profileFiles, "profile-file", nil, "file with a SchedulingProfile to use, and its PluginConfigs")
	flags.StringSliceVar(&o.withoutNodes, "without-node", nil, "a node to leave out with its pods")
	flags.StringSliceVar(&o.withNodes, "with-node", nil, "file with Nodes to add")
	flags.StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml).")
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	complete.RegisterFlag(cmd, "without-node", complete.Nodes(env))
	complete.RegisterFlag(cmd, "output", complete.Values("wide", "json", "yaml"))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o: unsupported output format %q: must be one of: wide, json, yaml", o.output)
	}
	if err := checkReplicas(o.replicas); err != nil {
		return err
	}
	if len(o.files) == 0 {
		return errors.New("-f: must specify a file, or - for standard input")
	}
	if o.cluster, err = o.Open(ctx); err != nil {
		return err
	}
	answer, err := o.evaluate(ctx)
	if err != nil {
		return err
	}
	if err := o.print(answer); err != nil {
		return err
	}
	if answer.placedPods() < len(answer.Pods) {
		return verb.ErrFindings
	}
	return nil
}

// evaluate returns the result.
func (o *options) evaluate(ctx context.Context) (*Result, error) {
	subject, err := o.readSubject()
	if err != nil {
		return nil, err
	}
	profile, err := o.selectProfile(ctx, subject)
	if err != nil {
		return nil, err
	}
	subject.pod.Spec.SchedulerName = profile.Name
	live, err := o.reader().Read(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.changeNodes(live); err != nil {
		return nil, err
	}
	subject.setOwner(live)
	if err := o.admit(ctx, subject, live); err != nil {
		return nil, err
	}
	subject.addClaims(live)
	if err := o.addDeviceClaims(ctx, subject, live); err != nil {
		return nil, err
	}
	profile.CheckNamespace(subject.pod.Namespace, live, o.note)
	profile.NoteExtenders(subject.pod, o.note)
	answer, err := o.tryPods(ctx, profile, subject, live)
	if err != nil {
		return nil, err
	}
	answer.Notes = append(subject.notes, o.notes...)
	return answer, nil
}

func (o *options) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

func (o *options) printNotes(notes []string) {
	for _, note := range notes {
		fmt.Fprintln(o.ErrOut, show.Wrap("note: "+note, "", "  "))
	}
}

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "try", Arguments: "-f FILE [--replicas N] [--profile NAME] [--without-node NODE] [--with-node FILE]",
	Short: "Show which nodes pods would be scheduled to, or why they would stay Pending",
	Long: `Reads nodes, pods and the other objects that plugins need, with your permissions, and
runs the scheduler's own cache, scheduling cycle and plugins on that copy. Nothing is
written.

FILE contains a Pod, or a Deployment, ReplicaSet, StatefulSet, Job, CronJob,
ReplicationController or PodTemplate. The number of pods is that of the object (replicas;
parallelism, or completions if fewer) or --replicas. Each pod is added to its node before the
next one is tried, and victims of preemption are removed. Claims that a controller would
create for the pods (volumeClaimTemplates, ephemeral volumes, ResourceClaimTemplates) are
created on the copy if they do not exist, and the volumes and devices that a pod uses are not
available to the next one. FILE may also contain the ResourceClaims, ResourceClaimTemplates
and DeviceClasses that the pods use.

The profile is the running one with the name in spec.schedulerName or --profile, or the
one in --profile-file. A dry run shows what the API server and webhooks set in the pod
(priority, requests, LimitRanges). If you may not create pods, the defaults that need no
cluster are set instead, and a note says so.

If several nodes have the best score, the choice depends on the node at which the scheduler
starts to iterate, which is not visible from outside: all of them are printed. With 100
nodes or more, the scheduler may stop before it evaluated all (percentageOfNodesToScore),
and the result is one of several. Pods that are pending already may take the resources
first. Extenders are not called; a note names those that would be.

Pods that name a group are decided together, as by a profile with GangScheduling; a PodGroup
is taken from the files before the cluster. For one pod that is pending in the cluster already,
its group is tried as a whole, with the other pods that are pending.

--without-node removes a node and its pods, which are not scheduled again. With --with-node,
a Node needs a name and status.allocatable or status.capacity; the default of the label
kubernetes.io/hostname is the name.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"list"}, Resource: "nodes"},
		{Verbs: []string{"list"}, Resource: "pods"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "except with --profile-file"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for the running revision"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "without a stored revision"},
		{Verbs: []string{"create"}, Resource: "pods", Scope: verb.InNamespace, Purpose: "for the dry run"},
		{Verbs: []string{"list"}, Resource: "namespaces", Purpose: "for namespaceSelectors and allowedNamespaces"},
		{Verbs: []string{"list"}, Resource: "services", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "policy", Resource: "poddisruptionbudgets", Purpose: "for preemption"},
		{Verbs: []string{"list"}, Group: "scheduling.k8s.io", Resource: "priorityclasses", Purpose: "without the dry run"},
		{Verbs: []string{"get"}, Group: "scheduling.k8s.io", Resource: "podgroups", Scope: verb.InNamespace, Purpose: "for pods of a PodGroup"},
		{Verbs: []string{"get"}, Group: "resource.k8s.io", Resource: "resourceclaimtemplates", Scope: verb.InNamespace, Purpose: "for pods with claims from templates"},
	}, slices.Concat(state.StoragePermissions("for pods with volumes", "list"), state.DevicePermissions("for pods with devices", "list"))...),
	Examples: []verb.Example{
		{Description: "Which node would this pod be scheduled to?", Command: "kubectl berth try -f pod.yaml"},
		{Description: "Would 50 pods fit if node n7 were drained?", Command: "kubectl berth try -f deployment.yaml --replicas 50 --without-node n7"},
		{Description: "What would a profile do that is not applied yet?", Command: "kubectl berth try -f pod.yaml --profile-file batch.yaml"},
	},
	OnSuccess: "all pods would be scheduled", OnFindings: "some pods would stay Pending",
}
