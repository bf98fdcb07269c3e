// Package config is what is installed, as kustomize bases; in Go it says which
// clusters that is for.
package config

// MinKubeVersion is the oldest Kubernetes that Berth is for: the oldest with whose
// API server `make older` passed. The manager and `kubectl berth check` tell of a
// cluster that is older. A bundle's minKubeVersion is the same: tools/bundle, a module
// of its own, takes it from tools/older, to which a test holds this one.
const MinKubeVersion = "1.35.0"
