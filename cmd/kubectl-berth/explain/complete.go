package explain

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// completeObject completes "pod/NAME", "pod NAME" and "NAME".
func completeObject(env verb.Env) complete.Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		word, _, slash := strings.Cut(begun, "/")
		switch {
		case slash && len(args) == 0:
			if kind := kindOf(word); kind != nil {
				return complete.Objects(env, kind.apiVersion, kind.name, word+"/")(cmd, args, begun)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 0:
			return complete.Objects(env, "v1", "Pod", "")(cmd, args, begun)
		case len(args) == 1 && !strings.Contains(args[0], "/") && kindOf(args[0]) != nil:
			kind := kindOf(args[0])
			return complete.Objects(env, kind.apiVersion, kind.name, "")(cmd, args, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
