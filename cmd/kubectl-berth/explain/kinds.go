package explain

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// kind is a kind that can be explained.
type kind struct {
	apiVersion, name string
	// aliases are the names that kubectl accepts.
	aliases []string
}

// kinds are Pod, and the kinds that create pods.
var kinds = []kind{
	{"v1", "Pod", []string{"pod", "pods", "po"}},
	{"apps/v1", "Deployment", []string{"deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"}},
	{"apps/v1", "ReplicaSet", []string{"replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"}},
	{"apps/v1", "StatefulSet", []string{"statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"}},
	{"apps/v1", "DaemonSet", []string{"daemonset", "daemonsets", "ds", "daemonset.apps", "daemonsets.apps"}},
	{"batch/v1", "Job", []string{"job", "jobs", "job.batch", "jobs.batch"}},
	{"batch/v1", "CronJob", []string{"cronjob", "cronjobs", "cj", "cronjob.batch", "cronjobs.batch"}},
	{"v1", "ReplicationController", []string{"replicationcontroller", "replicationcontrollers", "rc"}},
}

// kindOf returns the kind with this alias; nil if it cannot be explained.
func kindOf(alias string) *kind {
	at := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.aliases, alias) })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// completeObject completes "pod/NAME", "pod NAME" and "NAME", and the same for other kinds.
func completeObject(env verb.Env) complete.Func {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		word, _, slash := strings.Cut(prefix, "/")
		switch {
		case slash && len(args) == 0:
			if kind := kindOf(word); kind != nil {
				return complete.Objects(env, kind.apiVersion, kind.name, word+"/")(cmd, args, prefix)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 0:
			return complete.Objects(env, "v1", "Pod", "")(cmd, args, prefix)
		case len(args) == 1 && !strings.Contains(args[0], "/") && kindOf(args[0]) != nil:
			kind := kindOf(args[0])
			return complete.Objects(env, kind.apiVersion, kind.name, "")(cmd, args, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
