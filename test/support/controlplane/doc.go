// Package controlplane runs a real Kubernetes control plane without
// containers: etcd and kube-apiserver, and on request kube-controller-manager,
// kube-scheduler and KWOK, as child processes on 127.0.0.1.
//
// The integration tests, the demo and the load runs stand on it, so that what
// they show was seen by a real API server with real authorization (Node and
// RBAC). The binaries come from tools/build.sh, which `make controlplane` runs.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: true})
//	if err != nil { … }
//	defer cp.Stop()
//	err = cp.Nodes(ctx, 50, controlplane.NodeOptions{})
//
// Without ControllerManager nobody creates service accounts, so the admission
// plugin that wants one in every pod is off; nobody deletes the content of
// namespaces either.
package controlplane
