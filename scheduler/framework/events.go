package framework

import fwk "k8s.io/kube-scheduler/framework"

// What plugins can register for beyond the resources that kube-scheduler names.
// An update is reported, as fwk.Update, when it changes the labels of a
// namespace, or the selector of one of the others.
const (
	// Namespace changes which pods a namespaceSelector speaks of.
	Namespace fwk.EventResource = "Namespace"
	// Service and the three controllers change which pods a default spread
	// constraint counts.
	Service               fwk.EventResource = "Service"
	ReplicationController fwk.EventResource = "ReplicationController"
	ReplicaSet            fwk.EventResource = "apps/ReplicaSet"
	StatefulSet           fwk.EventResource = "apps/StatefulSet"
	// TerminatingPod is a pod on a node whose deletion begins, an fwk.Update:
	// from then on a spread does not count it.
	TerminatingPod fwk.EventResource = "TerminatingPod"
)
