// Package check is `kubectl berth check`: it checks whether Berth works in this cluster and
// whether this user has the permissions that the verbs need. With --uninstall it lists the
// workloads whose pods no scheduler would schedule without Berth.
package check

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "check", Arguments: "[--uninstall] [-o json|yaml]",
	Short: "Check that Berth works and which permissions you have; or list the workloads that use it",
	Long: `Each line begins with ok, note, fail or error. A failure keeps pods from being scheduled.
A note is information, such as a permission that a verb needs and you do not have. An
error is something that could not be read, such as a Lease that you may not get: its
state is unknown.

--uninstall lists the workloads and pods that use a profile. Pods that have ended are
left out, and the pods of a Deployment, a CronJob and so on are counted with it.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"get"}, Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verbs: []string{"get"}, Group: "coordination.k8s.io", Resource: "leases", Scope: verb.InBerthNamespace},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list"}, Resource: "pods"},
		{Verbs: []string{"create"}, Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", Purpose: "granted to every user by default"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "daemonsets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "jobs", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "cronjobs", Purpose: "for --uninstall"},
	},
	Examples: []verb.Example{
		{Description: "Does Berth work, and which permissions do I have?", Command: "kubectl berth check"},
		{Description: "Which workloads must move to another scheduler before Berth is uninstalled?", Command: "kubectl berth check --uninstall"},
	},
	OnSuccess: "no check failed; with --uninstall: no workload uses a profile", OnFindings: "a check failed, and everything could be read; with --uninstall: a workload uses a profile",
	OnError: "something could not be read, whatever else was found, or the command failed",
}

type options struct {
	verb.Env
	uninstall bool
	output    *show.Format
	// verbs are all verbs of the plugin.
	verbs   []verb.Verb
	cluster *cluster.Cluster
}

// New returns the command. verbs are the other verbs, whose permissions are checked as well.
func New(env verb.Env, verbs []verb.Verb) *cobra.Command {
	o := &options{Env: env, verbs: append(verbs, Verb), output: show.NewFormat()}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().BoolVar(&o.uninstall, "uninstall", false, "list the workloads and pods that use a profile")
	o.output.AddFlag(cmd, "")
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.All()...))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if err := o.output.Check(); err != nil {
		return err
	}
	if o.cluster, err = o.Open(ctx); err != nil {
		return err
	}
	if o.uninstall {
		return o.listStranded(ctx)
	}
	// An API server that does not answer is an error of the command, not a finding.
	server, err := o.cluster.Version(ctx)
	if err != nil {
		return cluster.UserError(err)
	}
	r := &report{out: o.Out, printText: !o.output.Structured()}
	r.checkServer(server.GitVersion)
	served := o.checkCRDs(ctx, r)
	o.checkLease(ctx, r)
	if served {
		o.checkProfiles(ctx, r)
	}
	o.checkPermissions(ctx, r)
	if o.output.Structured() {
		if err := o.output.Print(o.Out, Report{Checks: r.checks}); err != nil {
			return err
		}
	}
	return r.err()
}

// Report is the output of -o json.
type Report struct {
	Checks []Finding `json:"checks"`
}

// Finding is the result of one check, a line of the text output.
type Finding struct {
	// Result is ok, note, fail or error.
	Result string `json:"result"`
	// Check is what was checked: server, crds, leader, profiles, pods or permissions.
	Check   string `json:"check"`
	Message string `json:"message"`
}

// report collects the findings and, unless the output is JSON or YAML, prints each as it
// comes.
type report struct {
	out       io.Writer
	printText bool
	checks    []Finding
	failures  int
	// unreadable are the checks that could not read something, in order, each once.
	unreadable []string
}

// err returns the error that the command ends with.
func (r *report) err() error {
	switch {
	case len(r.unreadable) > 0:
		return fmt.Errorf("could not check %s: see the lines that begin with error", strings.Join(r.unreadable, ", "))
	case r.failures > 0:
		return verb.ErrFindings
	}
	return nil
}

func (r *report) ok(check, format string, args ...any)   { r.add("ok", check, format, args...) }
func (r *report) note(check, format string, args ...any) { r.add("note", check, format, args...) }

func (r *report) fail(check, format string, args ...any) {
	r.failures++
	r.add("fail", check, format, args...)
}

// failed reports that something could not be read.
func (r *report) failed(check, format string, args ...any) {
	if !slices.Contains(r.unreadable, check) {
		r.unreadable = append(r.unreadable, check)
	}
	r.add("error", check, format, args...)
}

func (r *report) add(result, check, format string, args ...any) {
	f := Finding{Result: result, Check: check, Message: fmt.Sprintf(format, args...)}
	r.checks = append(r.checks, f)
	if !r.printText {
		return
	}
	prefix := fmt.Sprintf("%-7s%-13s", result, check)
	indent := strings.Repeat(" ", len(prefix))
	fmt.Fprintln(r.out, prefix+strings.TrimPrefix(show.Wrap(f.Message, indent, ""), indent))
}
