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
	Rights: []verb.Right{
		{Verbs: []string{"get"}, Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verbs: []string{"get"}, Group: "coordination.k8s.io", Resource: "leases", In: verb.InBerth},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list"}, Resource: "pods"},
		{Verbs: []string{"create"}, Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", For: "which everybody has"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", For: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", For: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "daemonsets", For: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", For: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "jobs", For: "for --uninstall"},
		{Verbs: []string{"list"}, Group: "batch", Resource: "cronjobs", For: "for --uninstall"},
	},
	Examples: []verb.Example{
		{Says: "Does Berth work, and what may I do?", Command: "kubectl berth check"},
		{Says: "Whose pods would nobody schedule any more?", Command: "kubectl berth check --uninstall"},
	},
	Fine: "nothing is wrong; with --uninstall: nobody names a profile", Found: "something is wrong, and all could be read; with --uninstall: somebody does",
	Failed: "something could not be read, whatever else was found",
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
	complete.Flag(cmd, "output", complete.Words(o.output.All()...))
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
		return o.strands(ctx)
	}
	// An API server that does not answer is an error, not a finding.
	server, err := o.cluster.Version(ctx)
	if err != nil {
		return cluster.Plain(err)
	}
	r := &report{out: o.Out, text: !o.output.Structured()}
	r.server(server.GitVersion)
	served := o.kinds(ctx, r)
	o.leader(ctx, r)
	if served {
		o.profiles(ctx, r)
	}
	o.rights(ctx, r)
	if o.output.Structured() {
		if err := o.output.Print(o.Out, Report{Checks: r.checks}); err != nil {
			return err
		}
	}
	return r.verdict()
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
	About   string `json:"about"`
	Message string `json:"message"`
}

// report is what was found, and where text is asked for prints it, a line each.
type report struct {
	out    io.Writer
	text   bool
	checks []Finding
	wrongs int
	// unread is what could not be read, in order, each once.
	unread []string
}

// verdict is how the command ends.
func (r *report) verdict() error {
	switch {
	case len(r.unread) > 0:
		return fmt.Errorf("could not be read: %s; whether that is well is unknown", strings.Join(r.unread, ", "))
	case r.wrongs > 0:
		return verb.ErrFound
	}
	return nil
}

func (r *report) ok(about, format string, args ...any)   { r.line("ok", about, format, args...) }
func (r *report) note(about, format string, args ...any) { r.line("note", about, format, args...) }

func (r *report) wrong(about, format string, args ...any) {
	r.wrongs++
	r.line("wrong", about, format, args...)
}

// failed says that something could not be read.
func (r *report) failed(about, format string, args ...any) {
	if !slices.Contains(r.unread, about) {
		r.unread = append(r.unread, about)
	}
	r.line("error", about, format, args...)
}

func (r *report) line(verdict, about, format string, args ...any) {
	f := Finding{Result: verdict, About: about, Message: fmt.Sprintf(format, args...)}
	r.checks = append(r.checks, f)
	if !r.text {
		return
	}
	begin := fmt.Sprintf("%-7s%-11s", verdict, about)
	indent := strings.Repeat(" ", len(begin))
	fmt.Fprintln(r.out, begin+strings.TrimPrefix(show.Wrap(f.Message, indent, ""), indent))
}
