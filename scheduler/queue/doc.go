// Package queue answers who waits, in what order, and what will wake them.
//
// A waiting pod is in exactly one place: active, backoff, unschedulable, gated
// or parked; popped, it is in flight until its attempt ends. While a pod is in
// flight, or while somebody decides where it goes next, the events of the
// cluster are kept for it and replayed before it is put down, so that none is
// missed.
//
// Each pod knows by which rules it was judged last. A swap goes through the pods
// in slices and judges them by the new ones; who is popped or put down before its
// turn is judged then. Only whom the change touches is tried again.
//
// No plugin is called under the queue's lock but Less, which is recovered.
// Everything else that a plugin says about waiting (PreEnqueue, queueing
// hints) is asked in place, between two holds of the lock.
//
// Sources: the states, the backoff formula and the hint rules are those of
// kube-scheduler 1.37, k8s.io/kubernetes/pkg/scheduler/backend/queue.
package queue
