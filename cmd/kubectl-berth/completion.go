package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// completerName is the program that kubectl runs to complete the arguments of `kubectl
// berth`.
const completerName = "kubectl_complete-berth"

// completerScript is the content of that program.
const completerScript = `#!/usr/bin/env sh
# kubectl runs this to complete the arguments of kubectl berth.
exec kubectl berth __complete "$@"
`

// commandArgs returns the arguments of this process. If it was started under the name of the
// completer, for example by a link, cobra completes them.
func commandArgs(args []string) []string {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if name != completerName {
		return args[1:]
	}
	return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
}

// addCompletion adds cobra's command completion, a subcommand for the completer of kubectl,
// and the completion of the global flags.
func addCompletion(root *cobra.Command, env verb.Env, flags *cluster.Flags) {
	root.InitDefaultCompletionCmd()
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	command := root.Commands()[at]
	command.Short = "Print a script that completes names of verbs, profiles, pods and flags"
	command.Long = fmt.Sprintf(`To complete the arguments of this plugin, kubectl runs the program %s. Put it
on the PATH:

  kubectl berth completion kubectl > ~/bin/%s && chmod +x ~/bin/%s

The scripts for shells are for users who run the plugin as kubectl-berth.`, completerName, completerName, completerName)
	command.AddCommand(newCompleter(env.IOStreams))
	complete.RegisterFlag(root, "namespace", complete.Namespaces(env))
	complete.RegisterFlag(root, "berth-namespace", complete.Namespaces(env))
	complete.RegisterFlag(root, "context", kubeconfigNames(flags, cluster.Contexts))
	complete.RegisterFlag(root, "cluster", kubeconfigNames(flags, cluster.Clusters))
	complete.RegisterFlag(root, "user", kubeconfigNames(flags, cluster.Users))
}

func newCompleter(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use: "kubectl", Args: cobra.NoArgs, DisableFlagsInUseLine: true,
		Short: "Print the program " + completerName + ", which completes kubectl berth",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(streams.Out, completerScript)
			return err
		},
	}
}

// kubeconfigNames completes names in the kubeconfig.
func kubeconfigNames(flags *cluster.Flags, names func(*cluster.Flags) []string) complete.Func {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return complete.Values(names(flags)...)(cmd, args, prefix)
	}
}
