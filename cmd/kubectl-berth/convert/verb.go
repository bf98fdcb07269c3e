// Package convert is `kubectl berth convert`: it converts kube-scheduler's configuration to
// Berth's resources, and back.
package convert

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "convert", Arguments: "-f FILE [--key KEY] [--inline] [--scheduler-name NAME] | (-f FILE | profile/NAME) --to kube-scheduler",
	Short: "Convert kube-scheduler's configuration to profiles, or profiles to it",
	Long: `FILE contains a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, or v1beta3,
which kube-scheduler read until Kubernetes 1.28), a Policy (apiVersion v1), which it read
until 1.22, or a ConfigMap with one of them. If a ConfigMap has several, --key selects
one; documents of other kinds are ignored. SchedulingProfiles and PluginConfigs are
printed to standard output; arguments that several profiles share become a PluginConfig.
Remarks on fields that were lost, or moved elsewhere, are printed to standard error; the
former begin with "lost".

With --to kube-scheduler, FILE contains SchedulingProfiles and the PluginConfigs that they
reference, or profile/NAME is a profile of the cluster. The resulting configuration makes
the same decisions as Berth. clientConnection and leaderElection are left out: set them
for your kube-scheduler.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for profile/NAME"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for profile/NAME"},
	},
	Examples: []verb.Example{
		{Description: "Convert a configuration file and apply the profiles", Command: "kubectl berth convert -f scheduler.yaml | kubectl apply -f -"},
		{Description: "Convert the ConfigMap of a running kube-scheduler", Command: "kubectl get configmap my-scheduler -n kube-system -o yaml | kubectl berth convert -f -"},
		{Description: "Convert a Policy to a profile named batch", Command: "kubectl berth convert -f policy.json --scheduler-name batch"},
		{Description: "Convert a profile of the cluster to a configuration of kube-scheduler", Command: "kubectl berth convert profile/batch --to kube-scheduler"},
	},
	OnSuccess: "everything is converted", OnFindings: "something is lost; the rest is printed",
}
