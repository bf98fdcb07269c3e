// Package extender is kube-scheduler's HTTP extenders, as plugins see them: the
// client of k8s.io/kube-scheduler/extender/v1, and all that stands between the
// scheduler and a server that it has no reason to trust. Such a server may be
// slow, silent, huge or wrong, and its address may be chosen by somebody who
// would like Berth to talk to another.
package extender
