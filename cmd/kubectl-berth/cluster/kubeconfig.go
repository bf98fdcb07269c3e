package cluster

import (
	"maps"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Contexts are the names of the contexts in the kubeconfig, in order.
func Contexts(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Contexts)) }

// Clusters are the names of the clusters in the kubeconfig, in order.
func Clusters(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Clusters)) }

// Users are the names of the users in the kubeconfig, in order.
func Users(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().AuthInfos)) }

// kubeconfig is empty where it cannot be read.
func (f *Flags) kubeconfig() clientcmdapi.Config {
	config, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return clientcmdapi.Config{}
	}
	return config
}
