package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/convert"
	"github.com/berthdev/berth/cmd/kubectl-berth/decisions"
	"github.com/berthdev/berth/cmd/kubectl-berth/explain"
	"github.com/berthdev/berth/cmd/kubectl-berth/profiles"
	"github.com/berthdev/berth/cmd/kubectl-berth/record"
	"github.com/berthdev/berth/cmd/kubectl-berth/retry"
	"github.com/berthdev/berth/cmd/kubectl-berth/rollback"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/kubectltest"
)

func completionObjects() []client.Object {
	batch := kubectltest.Profile("batch", 1)
	return []client.Object{
		batch, kubectltest.Profile("bulk", 1), kubectltest.Profile("web", 1), kubectltest.Revision(batch, 1),
		kubectltest.Pod("web-1", "web", "n1"), kubectltest.Pod("web-2", "web", ""), kubectltest.Pod("job-1", "batch", ""),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "shop-2"}},
	}
}

func TestNamesAreCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		verb func(verb.Env) *cobra.Command
		args []string
		want []string
	}{
		"a profile":                        {profiles.New, []string{"b"}, []string{"batch", "bulk"}},
		"a second profile":                 {profiles.New, []string{"batch", "b"}, []string{"bulk"}},
		"the profile to roll back":         {rollback.New, []string{""}, []string{"batch", "bulk", "web"}},
		"no second profile to roll back":   {rollback.New, []string{"batch", ""}, nil},
		"a revision of the profile":        {rollback.New, []string{"batch", "--to", ""}, []string{"1\t" + kubectltest.Revision(kubectltest.Profile("batch", 1), 1).Name + ", stable"}},
		"the profile to retry":             {retry.New, []string{"w"}, []string{"web"}},
		"the profile of decisions":         {decisions.New, []string{"--profile", "w"}, []string{"web"}},
		"the profile to try pods with":     {try.New, []string{"--profile", "w"}, []string{"web"}},
		"a node":                           {try.New, []string{"--without-node", ""}, []string{"n1"}},
		"the profile to record":            {record.New, []string{"x.jsonl", "--profile", "w"}, []string{"web"}},
		"a profile after profile/":         {convert.New, []string{"profile/b"}, []string{"profile/batch", "profile/bulk"}},
		"the value of --to":                {convert.New, []string{"--to", ""}, []string{"kube-scheduler"}},
		"a pod":                            {explain.New, []string{"web"}, []string{"web-1", "web-2"}},
		"a pod after pod/":                 {explain.New, []string{"po/web"}, []string{"po/web-1", "po/web-2"}},
		"a pod after pod and a space":      {explain.New, []string{"pod", "j"}, []string{"job-1"}},
		"a Deployment of the namespace":    {explain.New, []string{"deploy/"}, []string{"deploy/shop"}},
		"no object of an unsupported kind": {explain.New, []string{"node/"}, nil},
		"an output format":                 {decisions.New, []string{"-o", "j"}, []string{"json"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := completions(kubectltest.New(t, completionObjects()...).Run(c.verb, append([]string{cobra.ShellCompRequestCmd}, c.args...)...))
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("completed (-want +got):\n%s", diff)
			}
		})
	}
}

// completions returns the values that were printed.
func completions(printed string) (words []string) {
	words = strings.Split(printed[:strings.Index(printed, ":")], "\n")
	return words[: len(words)-1 : len(words)-1]
}

func TestNothingIsCompletedWhenTheClusterDoesNotAnswer(t *testing.T) {
	env := kubectltest.New(t, completionObjects()...)
	env.Fail = func(string, any) error { return errors.New("forbidden") }
	printed := env.Run(rollback.New, cobra.ShellCompRequestCmd, "")
	if !strings.HasPrefix(printed, ":4\n") || !strings.HasSuffix(printed, "exit 0\n") {
		t.Error(printed)
	}
}

// The shell waits for the connection, too.
func TestACompletionWaitsForAnAPIServerForABoundedTime(t *testing.T) {
	bounded := false
	env := verb.Env{Open: func(ctx context.Context) (*cluster.Cluster, error) {
		_, bounded = ctx.Deadline()
		return nil, errors.New("no kubeconfig")
	}}
	if complete.Profiles(env, "")(profiles.New(env), nil, ""); !bounded {
		t.Error("requests of the connection have no deadline")
	}
}

func TestTheCompleterProgramCompletesItsArguments(t *testing.T) {
	for name, want := range map[string][]string{
		"/usr/bin/kubectl-berth":              {"rollback", ""},
		"/usr/bin/kubectl_complete-berth":     {"__complete", "rollback", ""},
		`/usr/bin/kubectl_complete-berth.exe`: {"__complete", "rollback", ""},
	} {
		if diff := cmp.Diff(want, commandArgs([]string{name, "rollback", ""})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheCompleterIsPrinted(t *testing.T) {
	if printed := runRoot(t, "completion", "kubectl"); printed != completerScript {
		t.Error(printed)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if printed := runRoot(t, "completion", shell); !strings.Contains(printed, "kubectl-berth") {
			t.Errorf("%s: %s", shell, printed)
		}
	}
	if printed := runRoot(t, cobra.ShellCompRequestCmd, "roll"); !strings.HasPrefix(printed, "rollback\t") {
		t.Error(printed)
	}
}
