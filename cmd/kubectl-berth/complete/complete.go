// Package complete says what a shell may complete: names of profiles, revisions,
// pods and what makes them, nodes and namespaces, as the cluster has them. Where the
// cluster does not answer within seconds, or may not be read, nothing is completed.
package complete

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Func completes an argument or the value of a flag, as cobra asks for it.
type Func = cobra.CompletionFunc

const (
	// patience is how long a shell waits for an answer.
	timeout = 5 * time.Second
	// most bounds how many names are asked for.
	maxNames = 500
)

// source returns names, given the arguments that are there already. A description
// follows a name after a tab.
type source func(ctx context.Context, c *cluster.Cluster, args []string) ([]string, error)

// from completes what a source returns, without what is there already.
func fromSource(env verb.Env, names source) Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		c, err := env.Open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(ctx, c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(found, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// some are the names that begin with what was begun and are not there already.
func matching(names, there []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		name, _, _ = strings.Cut(name, "\t")
		return !strings.HasPrefix(name, begun) || slices.Contains(there, name)
	})
}

// Profiles completes names of SchedulingProfiles, each behind prefix.
func Profiles(env verb.Env, prefix string) Func {
	return fromSource(env, func(ctx context.Context, c *cluster.Cluster, _ []string) ([]string, error) {
		profiles, err := c.Profiles(ctx)
		var names []string
		for _, name := range cluster.ProfileNames(profiles) {
			names = append(names, prefix+name)
		}
		return names, err
	})
}

// Revisions completes revisions of the profile that is the first argument: their
// numbers, and as a description what there is to know of them.
func Revisions(env verb.Env) Func {
	return fromSource(env, func(ctx context.Context, c *cluster.Cluster, args []string) ([]string, error) {
		if len(args) == 0 {
			return nil, nil
		}
		revisions, err := c.Revisions(ctx, args[0])
		var names []string
		for _, r := range revisions {
			names = append(names, fmt.Sprintf("%d\t%s, %s", r.Number, r.Name, r.Status()))
		}
		return names, err
	})
}

// Nodes completes names of nodes.
func Nodes(env verb.Env) Func { return Objects(env, "v1", "Node", "") }

// Namespaces completes names of namespaces.
func Namespaces(env verb.Env) Func { return Objects(env, "v1", "Namespace", "") }

// Objects completes names of objects of a kind, those of the chosen namespace where the
// kind has one, each behind prefix.
func Objects(env verb.Env, apiVersion, kind, prefix string) Func {
	return fromSource(env, func(ctx context.Context, c *cluster.Cluster, _ []string) ([]string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.APIVersion, list.Kind = apiVersion, kind+"List"
		options := []client.ListOption{client.Limit(maxNames)}
		if kind != "Node" && kind != "Namespace" {
			options = append(options, client.InNamespace(c.Namespace))
		}
		if err := c.Client.List(ctx, list, options...); err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, prefix+list.Items[i].Name)
		}
		return names, nil
	})
}

// Words completes some of these.
func Values(words ...string) Func {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return matching(words, nil, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// First completes the first argument, and nothing after it.
func FirstArgument(f Func) Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

// Files lets the shell complete names of files.
func Files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// Flag has the value of a flag completed. The command must have the flag.
func RegisterFlag(cmd *cobra.Command, flag string, f Func) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // a flag that is not there, or is registered twice: a mistake in this program
	}
}
