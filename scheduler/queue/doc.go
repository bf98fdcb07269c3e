// Package queue holds pending pods, decides in which order they are tried, and
// wakes them by events.
//
// A pod is in exactly one place: active, backoff, unschedulable, gated or held; a
// popped pod is in flight until its attempt ends. While a pod is in flight, and
// while the queue decides where it goes next, the queue records the events of the
// cluster and replays them before the pod gets its place, so that no event is
// missed.
//
// Each pod knows the rules of its profile that it was last evaluated under. A swap
// visits the pods of its profile in slices and compares the old rules with the new
// ones; a pod that is popped or requeued before its slice is compared at that
// moment. Only pods that the difference may concern are requeued.
//
// The queue calls no plugin under its lock but Less, which the framework recovers.
// PreEnqueue plugins and queueing hints are called synchronously between two holds
// of the lock.
//
// Sources: the places, the backoff formula and the rules of hints are those of
// kube-scheduler 1.37, k8s.io/kubernetes/pkg/scheduler/backend/queue.
package queue
