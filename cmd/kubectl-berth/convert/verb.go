// Package convert is `kubectl berth convert`: kube-scheduler's configuration as
// Berth's resources, and the way back.
package convert

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "convert", Arguments: "-f FILE [--key KEY] [--inline] [--scheduler-name NAME] | (-f FILE | profile/NAME) --to kube-scheduler",
	Short: "Turn kube-scheduler's configuration into profiles, or profiles into it",
	Long: `FILE holds a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, or v1beta3,
which kube-scheduler read until Kubernetes 1.28), a Policy (apiVersion v1) as it took
it until 1.22, or a ConfigMap with one of them. Where a ConfigMap has several, --key
says which; documents of other kinds beside it are passed over. SchedulingProfiles
and PluginConfigs go to standard output; arguments that several profiles share
become a PluginConfig. What could not be carried over, or is said in another place,
is told field by field on standard error, the first kind marked with "lost".

With --to kube-scheduler it goes the other way: FILE holds SchedulingProfiles and
the PluginConfigs that they name; profile/NAME is what the cluster has. The result
decides as Berth does. Who the API server is, and which Lease is held, stays
kube-scheduler's own: clientConnection and leaderElection are left out.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for profile/NAME"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for profile/NAME"},
	},
	Examples: []verb.Example{
		{Description: "From a kube-scheduler's file to profiles that run", Command: "kubectl berth convert -f scheduler.yaml | kubectl apply -f -"},
		{Description: "From the ConfigMap of a kube-scheduler that runs", Command: "kubectl get configmap my-scheduler -n kube-system -o yaml | kubectl berth convert -f -"},
		{Description: "A Policy of old, as profile batch", Command: "kubectl berth convert -f policy.json --scheduler-name batch"},
		{Description: "Back again", Command: "kubectl berth convert profile/batch --to kube-scheduler"},
	},
	OnSuccess: "all of it is carried over", OnFindings: "it is printed, but something is lost",
}
