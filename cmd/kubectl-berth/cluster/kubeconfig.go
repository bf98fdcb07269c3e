package cluster

import (
	"maps"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Contexts returns the names of the contexts in the kubeconfig, sorted.
func Contexts(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Contexts)) }

// Clusters returns the names of the clusters in the kubeconfig, sorted.
func Clusters(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Clusters)) }

// Users returns the names of the users in the kubeconfig, sorted.
func Users(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().AuthInfos)) }

// kubeconfig returns the kubeconfig; an empty one if it cannot be read.
func (f *Flags) kubeconfig() clientcmdapi.Config {
	config, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return clientcmdapi.Config{}
	}
	return config
}
