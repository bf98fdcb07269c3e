// Package try is `kubectl berth try`: where would these pods go, or why nowhere?
// The scheduler itself is asked, on a copy of the live state; nothing is written.
package try

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// maxReplicas bounds how many pods are tried.
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
	// notes are what is to be known of the answer, in the order in which it was
	// found out.
	notes []string
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "file with a Pod, or with what makes pods; - for standard input")
	flags.IntVar(&o.replicas, "replicas", 0, "how many pods, one after another, each counted before the next; 0: as many as the file says")
	flags.StringVar(&o.profile, "profile", "", "the SchedulingProfile to ask, in place of the pod's spec.schedulerName")
	flags.StringSliceVar(&o.profileFiles, "profile-file", nil, "file with a SchedulingProfile that is not applied, and perhaps its PluginConfigs")
	flags.StringSliceVar(&o.withoutNodes, "without-node", nil, "leave out this node and the pods that are on it")
	flags.StringSliceVar(&o.withNodes, "with-node", nil, "file with Nodes to add")
	flags.StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml).")
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	complete.RegisterFlag(cmd, "without-node", complete.Nodes(env))
	complete.RegisterFlag(cmd, "output", complete.Values("wide", "json", "yaml"))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o: no format %q: it is one of wide, json, yaml", o.output)
	}
	if o.replicas < 0 || o.replicas > maxReplicas {
		return fmt.Errorf("--replicas: must be from 1 to %d, or 0 for what the file says, is %d", maxReplicas, o.replicas)
	}
	if len(o.files) == 0 {
		return errors.New("-f: name a file, or - for standard input")
	}
	if o.cluster, err = o.Open(); err != nil {
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

// ask finds out where the pods go.
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
	profile.CheckNamespace(subject.pod.Namespace, live, o.note)
	if unasked := interestedExtenders(profile, subject.pod); len(unasked) > 0 {
		o.note("extenders are not asked here, and this profile has some that Berth asks about such a pod (%s): they may leave out nodes that fit here, and like others better",
			strings.Join(unasked, ", "))
	}
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
