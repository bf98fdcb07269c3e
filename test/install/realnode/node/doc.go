// Package node runs a cluster with one real node: the control plane of package
// controlplane, kubelet and containerd as processes, and KWOK nodes beside them.
//
// It changes the network and mounts of the machine that it runs on, so it works only
// inside of the namespaces that tools/real-node.sh makes: Start refuses to run
// elsewhere.
//
// Pods reach the API server without kube-proxy: the service address of kubernetes is
// an address of the bridge, and kube-apiserver listens there.
package node
