// Package verb says what a verb of the plugin is: what it does, what it must be
// allowed to do it, and what its exit code means. Help prints that, and `check`
// asks the API server about it: neither can say something else than the other.
package verb

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// ErrFound is how a verb ends that did what it was asked and found what its
// Found says. What it found is printed already.
var ErrFindings = errors.New("found something")

// The plugin's exit codes. What ExitFound means is the verb's to say.
const (
	ExitOK       = 0
	ExitFindings = 1
	ExitError    = 2
)

// ExitCode is the plugin's for how a verb ended.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrFindings):
		return ExitFindings
	}
	return ExitError
}

// Scope is where a right is needed.
type Scope string

const (
	// InCluster is everywhere: a ClusterRole that is bound for the cluster.
	InCluster Scope = ""
	// InBerth is Berth's own namespace.
	InBerthNamespace Scope = "in Berth's namespace"
	// InNamespace is the namespace of what the verb is asked about.
	InNamespace Scope = "in the pod's namespace"
)

// Right is what a verb must be allowed.
type Permission struct {
	// Verbs are the API's: get, list, watch, patch.
	Verbs []string
	// Group is empty for the core one.
	Group, Resource string
	Scope           Scope
	// For says what it is needed for, where the verb does something without.
	Purpose string
}

// Name is the resource as kubectl writes it: deployments.apps.
func (r Permission) Name() string { return strings.TrimSuffix(r.Resource+"."+r.Group, ".") }

// Example is a command, and what it is good for.
type Example struct{ Description, Command string }

// Verb is one of the plugin's.
type Verb struct {
	Name string
	// Arguments are what follows the name: "PROFILE [flags]".
	Arguments string
	// Short is a sentence without a full stop, Long all that follows it.
	Short, Long string
	Permissions []Permission
	Examples    []Example
	// Fine and Found say what exit codes 0 and 1 mean; without Found there is
	// no 1. Failed says what 2 means, where that is more than that the verb could
	// not be carried out.
	OnSuccess, OnFindings, OnError string
}

// Env is what a verb works with.
type Env struct {
	genericiooptions.IOStreams
	// Open reaches the cluster, once somebody needs it.
	Open func() (*cluster.Cluster, error)
	Now  func() time.Time
}

// Command makes the verb a command.
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
		return "Rights that it needs: none, it asks no cluster.\n"
	}
	verbs, names := 0, 0
	for _, r := range v.Permissions {
		verbs, names = max(verbs, len(strings.Join(r.Verbs, ", "))), max(names, len(r.Name()))
	}
	var b strings.Builder
	b.WriteString("Rights that it needs:\n")
	for _, r := range v.Permissions {
		more := slices.DeleteFunc([]string{string(r.Scope), r.Purpose}, func(s string) bool { return s == "" })
		line := fmt.Sprintf("  %-*s  %-*s  %s", verbs, strings.Join(r.Verbs, ", "), names, r.Name(), strings.Join(more, ", "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (v Verb) exitCodesHelp() string {
	text := fmt.Sprintf("Exit codes:\n  0  %s\n", cmp.Or(v.OnSuccess, "it is printed"))
	if v.OnFindings != "" {
		text += fmt.Sprintf("  1  %s\n", v.OnFindings)
	}
	return text + "  2  " + cmp.Or(v.OnError, "it could not be done: the error says why")
}
