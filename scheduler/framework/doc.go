// Package framework is Berth's runtime of the contract that kube-scheduler
// publishes in k8s.io/kube-scheduler/framework: the data that plugins see, the
// chains in which they are called, and the Handle they are given.
//
// A call of a plugin is recovered, attributed and timed here; what calls mean
// for a pod is decided by those who ask: cycle, binding and queue.
package framework
