package operator

import (
	"github.com/go-logr/logr"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"github.com/berthdev/berth/config"
)

// workloads is where Kubernetes 1.35 serves what a pod's spec.workloadRef names:
// 1.36 has spec.schedulingGroup instead, and clients of today drop the older field.
const workloadsGroupVersion = "scheduling.k8s.io/v1alpha1"

// tellKubernetes tells of an API server that is older than any that Berth is for,
// and of one whose pods can ask for what Berth does not see. Neither keeps Berth
// from working, as far as it goes; what is wrong with the connection, others find.
func logKubernetesVersion(server discovery.DiscoveryInterface, log logr.Logger) {
	is, err := server.ServerVersion()
	if err != nil {
		log.Info("The version of the API server is not to be known", "error", err.Error())
		return
	}
	log.Info("The API server answers", "version", is.GitVersion)
	if parsed, err := utilversion.ParseGeneric(is.GitVersion); err == nil && parsed.LessThan(utilversion.MustParseGeneric(config.MinKubeVersion)) {
		log.Info("The API server is older than any that Berth is for: upgrade the cluster", "version", is.GitVersion, "oldest", config.MinKubeVersion)
	}
	list, err := server.ServerResourcesForGroupVersion(workloadsGroupVersion)
	if err != nil {
		return // it is not there, as nearly everywhere
	}
	for _, r := range list.APIResources {
		if r.Name == "workloads" {
			log.Info("The API server serves Workloads of Kubernetes 1.35, and Berth does not see which pods name one: "+
				"pods with spec.workloadRef are scheduled one by one; give them schedulingGates or another scheduler", "groupVersion", workloadsGroupVersion)
		}
	}
}
