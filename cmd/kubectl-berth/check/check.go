// Package check is `kubectl berth check`: can Berth work here, and may this user
// do what the verbs need? With --uninstall: who would be stranded without it?
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

// Verb describes it.
var Verb = verb.Verb{
	Name: "check", Arguments: "[--uninstall] [-o json|yaml]",
	Short: "Check that Berth works, and what this user may do; or who would be stranded without it",
	Long: `Each line begins with ok, note, wrong or error. What is wrong keeps pods from being
scheduled; a note is worth knowing, such as a right that a verb needs and this user
does not have. An error is something that could not be read, such as a Lease that this
user may not get: whether it is well is unknown.

--uninstall lists every pod that has not ended, and every template, that names a
profile: what a Deployment, a CronJob and so on make is counted with it.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"get"}, Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verbs: []string{"get"}, Group: "coordination.k8s.io", Resource: "leases", Scope: verb.InBerthNamespace},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list"}, Resource: "pods"},
		{Verbs: []string{"create"}, Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", Purpose: "which everybody has"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "daemonsets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "jobs", Purpose: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "cronjobs", Purpose: "for --uninstall"},
	},
	Examples: []verb.Example{
		{Description: "Does Berth work, and what may I do?", Command: "kubectl berth check"},
		{Description: "Whose pods would nobody schedule any more?", Command: "kubectl berth check --uninstall"},
	},
	OnSuccess: "nothing is wrong; with --uninstall: nobody names a profile", OnFindings: "something is wrong, and all could be read; with --uninstall: somebody does",
	OnError: "something could not be read, whatever else was found",
}

type options struct {
	verb.Env
	uninstall bool
	output    *show.Format
	// verbs are all of the plugin's.
	verbs   []verb.Verb
	cluster *cluster.Cluster
}

// New returns the command. verbs are all others, whose rights it asks about.
func New(env verb.Env, verbs []verb.Verb) *cobra.Command {
	o := &options{Env: env, verbs: append(verbs, Verb), output: show.NewFormat()}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().BoolVar(&o.uninstall, "uninstall", false, "list what names a profile, so that nothing is stranded")
	o.output.AddFlag(cmd, "")
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.All()...))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if err := o.output.Check(); err != nil {
		return err
	}
	if o.cluster, err = o.Open(); err != nil {
		return err
	}
	if o.uninstall {
		return o.listStranded(ctx)
	}
	// An API server that does not answer is an error, not a finding.
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

// Report is all that was found, as -o json has it.
type Report struct {
	Checks []Finding `json:"checks"`
}

// Finding is a line of it.
type Finding struct {
	// Result is ok, note, wrong or error.
	Result string `json:"result"`
	// About is what was looked at: server, crds, leader, profiles, pods or rights.
	Check   string `json:"about"`
	Message string `json:"message"`
}

// report is what was found, and where text is asked for prints it, a line each.
type report struct {
	out        io.Writer
	printText  bool
	checks     []Finding
	wrongCount int
	// unread is what could not be read, in order, each once.
	unreadable []string
}

// verdict is how the command ends.
func (r *report) err() error {
	switch {
	case len(r.unreadable) > 0:
		return fmt.Errorf("could not be read: %s; whether that is well is unknown", strings.Join(r.unreadable, ", "))
	case r.wrongCount > 0:
		return verb.ErrFindings
	}
	return nil
}

func (r *report) ok(about, format string, args ...any)   { r.add("ok", about, format, args...) }
func (r *report) note(about, format string, args ...any) { r.add("note", about, format, args...) }

func (r *report) wrong(about, format string, args ...any) {
	r.wrongCount++
	r.add("wrong", about, format, args...)
}

// failed says that something could not be read.
func (r *report) failed(about, format string, args ...any) {
	if !slices.Contains(r.unreadable, about) {
		r.unreadable = append(r.unreadable, about)
	}
	r.add("error", about, format, args...)
}

func (r *report) add(verdict, about, format string, args ...any) {
	f := Finding{Result: verdict, Check: about, Message: fmt.Sprintf(format, args...)}
	r.checks = append(r.checks, f)
	if !r.printText {
		return
	}
	begin := fmt.Sprintf("%-7s%-11s", verdict, about)
	indent := strings.Repeat(" ", len(begin))
	fmt.Fprintln(r.out, begin+strings.TrimPrefix(show.Wrap(f.Message, indent, ""), indent))
}
