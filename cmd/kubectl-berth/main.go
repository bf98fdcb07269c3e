// Command kubectl-berth is the kubectl plugin of Berth: `kubectl berth`. This file assembles
// the verbs, each of which has a folder.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/check"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/convert"
	"github.com/berthdev/berth/cmd/kubectl-berth/decisions"
	"github.com/berthdev/berth/cmd/kubectl-berth/diff"
	"github.com/berthdev/berth/cmd/kubectl-berth/explain"
	"github.com/berthdev/berth/cmd/kubectl-berth/lint"
	"github.com/berthdev/berth/cmd/kubectl-berth/profiles"
	"github.com/berthdev/berth/cmd/kubectl-berth/record"
	"github.com/berthdev/berth/cmd/kubectl-berth/retry"
	"github.com/berthdev/berth/cmd/kubectl-berth/rollback"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/cmd/kubectl-berth/ui"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/cmd/kubectl-berth/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends requests to the cluster. Something else may not end with ctx, as a read
	// of standard input: the second signal ends the process.
	context.AfterFunc(ctx, stop)
	cmd := newRootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	cmd.SetArgs(commandArgs(os.Args))
	err := cmd.ExecuteContext(ctx)
	code := verb.ExitCode(err)
	if code == verb.ExitError {
		show.Error(cmd.ErrOrStderr(), err)
	}
	os.Exit(code)
}

// checkedVerbs are the verbs whose permissions check verifies, besides its own.
var checkedVerbs = []verb.Verb{profiles.Verb, lint.Verb, diff.Verb, rollback.Verb, retry.Verb, decisions.Verb, explain.Verb, try.Verb, record.Verb, convert.Verb, ui.Verb, version.Verb}

// newRootCommand assembles the verbs. They print texts that users of the cluster may have
// written, so that control characters are replaced.
func newRootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	streams.Out, streams.ErrOut = show.Escaped(streams.Out), show.Escaped(streams.ErrOut)
	flags := cluster.NewFlags()
	env := verb.Env{IOStreams: streams, Open: flags.Open, Now: time.Now}
	cmd := &cobra.Command{
		Use: "kubectl-berth", Short: "Show, validate and change the scheduling profiles of Berth",
		Long: `Berth is a scheduler whose profiles are custom resources. This plugin shows what is
running, explains scheduling decisions, validates profiles before they are applied, and
rolls them back.`,
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"},
		SilenceUsage: true, SilenceErrors: true,
	}
	flags.AddFlags(cmd.PersistentFlags())
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.AddCommand(
		profiles.New(env),
		lint.New(env),
		diff.New(env),
		rollback.New(env),
		retry.New(env),
		decisions.New(env),
		explain.New(env),
		try.New(env),
		record.New(env),
		convert.New(env),
		ui.New(env),
		check.New(env, checkedVerbs),
		version.New(env),
	)
	addCompletion(cmd, env, flags)
	return cmd
}
