package operator

import (
	"github.com/go-logr/logr"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"github.com/berthdev/berth/config"
)

// workloadsGroupVersion is where Kubernetes 1.35 serves Workloads, which a pod's
// spec.workloadRef names. Kubernetes 1.36 has spec.schedulingGroup instead, and
// client-go 1.37 drops the older field.
const workloadsGroupVersion = "scheduling.k8s.io/v1alpha1"

// logKubernetesVersion logs the version of the API server. It warns about one that is
// older than Berth supports, and about one whose pods can have a field that Berth does
// not see. Berth runs all the same; other code reports connection errors.
func logKubernetesVersion(server discovery.DiscoveryInterface, log logr.Logger) {
	version, err := server.ServerVersion()
	if err != nil {
		log.Info("The version of the API server is unknown", "error", err.Error())
		return
	}
	log.Info("Connected to the API server", "version", version.GitVersion)
	if parsed, err := utilversion.ParseGeneric(version.GitVersion); err == nil && parsed.LessThan(utilversion.MustParseGeneric(config.MinKubeVersion)) {
		log.Info("The API server is older than Berth supports: upgrade the cluster", "version", version.GitVersion, "oldest", config.MinKubeVersion)
	}
	list, err := server.ServerResourcesForGroupVersion(workloadsGroupVersion)
	if err != nil {
		return // nearly no cluster serves it
	}
	for _, r := range list.APIResources {
		if r.Name == "workloads" {
			log.Info("The API server serves Workloads of Kubernetes 1.35, and Berth does not see which pods name one: "+
				"pods with spec.workloadRef are scheduled one by one; give them schedulingGates or another scheduler", "groupVersion", workloadsGroupVersion)
		}
	}
}
