// Package config is what is installed, as kustomize bases; in Go it says which
// clusters that is for.
package config

// MinKubeVersion is the oldest Kubernetes that Berth is for: the oldest with whose
// API server `make older` passed. A bundle for OLM gives it as its minKubeVersion,
// the manager and `kubectl berth check` tell of a cluster that is older.
const MinKubeVersion = "1.35.0"
