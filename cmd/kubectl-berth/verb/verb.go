// Package verb describes what a verb of the plugin does, which permissions it needs and what
// its exit codes mean. The help and `check` are both made from this description, so that
// they cannot differ.
package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// ErrFindings is what a verb returns that ran successfully and found what its OnFindings
// describes. The verb has printed its findings already.
var ErrFindings = errors.New("the verb found something")

// The plugin's exit codes. OnFindings of a Verb says what ExitFindings means.
const (
	ExitOK       = 0
	ExitFindings = 1
	ExitError    = 2
)

// ExitCode returns the exit code for the error of a verb.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrFindings):
		return ExitFindings
	}
	return ExitError
}

// Scope is where a permission is needed. The zero value is the whole cluster: a
// ClusterRole with a ClusterRoleBinding.
type Scope string

const (
	// InBerthNamespace is the namespace that Berth runs in.
	InBerthNamespace Scope = "in Berth's namespace"
	// InNamespace is the namespace of the object that the verb is asked about.
	InNamespace Scope = "in the pod's namespace"
)

// Permission is something that the user of a verb must be allowed to do.
type Permission struct {
	// Verbs are verbs of the API: get, list, watch, patch.
	Verbs []string
	// Group is empty for the core group.
	Group, Resource string
	Scope           Scope
	// Purpose says which part of the verb needs the permission; empty where all of it does.
	Purpose string
}

// Name returns the resource as kubectl writes it: deployments.apps.
func (r Permission) Name() string { return strings.TrimSuffix(r.Resource+"."+r.Group, ".") }

// Example is a command and what it is for.
type Example struct{ Description, Command string }

// Verb describes one verb of the plugin.
type Verb struct {
	Name string
	// Arguments follow the name in the usage line: "PROFILE [flags]".
	Arguments string
	// Short is a sentence without a full stop, Long the text below it.
	Short, Long string
	Permissions []Permission
	Examples    []Example
	// OnSuccess and OnFindings say what exit codes 0 and 1 mean; without OnFindings there is no
	// exit code 1. OnError says what exit code 2 means, where it means more than that the verb
	// failed.
	OnSuccess, OnFindings, OnError string
}

// Env is what the verbs work with.
type Env struct {
	genericiooptions.IOStreams
	// Open connects to the cluster, until ctx ends. Verbs call it when they first need the cluster.
	Open func(ctx context.Context) (*cluster.Cluster, error)
	Now  func() time.Time
}

// Command returns the cobra command of the verb.
func (v Verb) Command(args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	var examples []string
	for _, e := range v.Examples {
		examples = append(examples, "  # "+e.Description+"\n  "+e.Command)
	}
	return &cobra.Command{
		Use: strings.TrimSpace(v.Name + " " + v.Arguments), Short: v.Short,
		Long:    v.Short + ".\n\n" + strings.TrimSpace(v.Long) + "\n\n" + v.permissionsHelp() + "\n" + v.exitCodesHelp(),
		Example: strings.Join(examples, "\n\n"), Args: args, RunE: run,
		DisableFlagsInUseLine: true,
	}
}

func (v Verb) permissionsHelp() string {
	if len(v.Permissions) == 0 {
		return "Required permissions: none, it does not contact the cluster.\n"
	}
	verbs, names := 0, 0
	for _, r := range v.Permissions {
		verbs, names = max(verbs, len(strings.Join(r.Verbs, ", "))), max(names, len(r.Name()))
	}
	var b strings.Builder
	b.WriteString("Required permissions:\n")
	for _, r := range v.Permissions {
		more := slices.DeleteFunc([]string{string(r.Scope), r.Purpose}, func(s string) bool { return s == "" })
		line := fmt.Sprintf("  %-*s  %-*s  %s", verbs, strings.Join(r.Verbs, ", "), names, r.Name(), strings.Join(more, ", "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (v Verb) exitCodesHelp() string {
	text := fmt.Sprintf("Exit codes:\n  0  %s\n", cmp.Or(v.OnSuccess, "success"))
	if v.OnFindings != "" {
		text += fmt.Sprintf("  1  %s\n", v.OnFindings)
	}
	return text + "  2  " + cmp.Or(v.OnError, "the command failed: the error says why")
}

// FilesCommand returns the cobra command of a verb that reads files: those of -f, and the
// arguments, which are what a shell makes of -f *.yaml.
func (v Verb) FilesCommand(run func(ctx context.Context, files []string) error) *cobra.Command {
	var files []string
	cmd := v.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, more []string) error {
		files = append(files, more...)
		if len(files) == 0 {
			return errors.New("-f: must specify a file, a directory, or - for standard input")
		}
		return run(cmd.Context(), files)
	})
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files, directories, or - for standard input")
	return cmd
}
