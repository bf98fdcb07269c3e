// Package complete completes arguments and flags in the shell: names of profiles, revisions,
// pods, workloads, nodes and namespaces of the cluster. If the cluster does not answer
// within a few seconds or forbids the request, nothing is completed.
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

// Func completes an argument or the value of a flag. It is what cobra calls.
type Func = cobra.CompletionFunc

const (
	// timeout bounds a request to the cluster: the shell waits meanwhile.
	timeout = 5 * time.Second
	// maxNames bounds how many names are requested.
	maxNames = 500
)

// source returns names, given the arguments before the one that is completed. A name may be
// followed by a tab and a description.
type source func(ctx context.Context, c *cluster.Cluster, args []string) ([]string, error)

// fromSource returns a Func that completes the names of a source, without the names that are
// arguments already.
func fromSource(env verb.Env, names source) Func {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		c, err := env.Open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(ctx, c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(found, args, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching returns the names that begin with prefix and are not among the given arguments.
func matching(names, there []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		name, _, _ = strings.Cut(name, "\t")
		return !strings.HasPrefix(name, prefix) || slices.Contains(there, name)
	})
}

// Profiles completes names of SchedulingProfiles, each with prefix in front.
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

// Revisions completes the numbers of the revisions of the profile that is the first
// argument. The description is their name and status.
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

// Objects completes names of objects of a kind, those of the chosen namespace if the kind is
// namespaced, each with prefix in front.
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

// Values completes one of these values.
func Values(words ...string) Func {
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return matching(words, nil, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// FirstArgument completes the first argument, and none after it.
func FirstArgument(f Func) Func {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, prefix)
	}
}

// Files lets the shell complete names of files.
func Files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// RegisterFlag sets the completion of the value of a flag. The command must have the flag.
func RegisterFlag(cmd *cobra.Command, flag string, f Func) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist, or is registered twice: a mistake in this program
	}
}
