package explain

import "slices"

// kind is one of those that are explained.
type kind struct {
	apiVersion, name string
	// words are what kubectl calls it.
	aliases []string
}

// kinds are pods first, then what makes them.
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

// kindOf returns the kind that kubectl knows by a word; nil where it is none that is
// explained.
func kindOf(word string) *kind {
	at := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.aliases, word) })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}
