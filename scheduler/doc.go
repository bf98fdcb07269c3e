// Package scheduler is the loop: one pod at a time from the queue to a node,
// in six steps.
//
//	1 queue.Pop            → Attempt
//	2 profile.Acquire      → Generation, one more reference
//	3 cache.Refresh        → the snapshot moves, here and nowhere else
//	4 cycle.Run            → Placement, or the error that says why not
//	5 binding.Begin        → assume, Reserve, Permit; then Finish beside the loop
//	6 settle               → the Decision, the condition, the event; the Attempt
//	                         ends; the Generation is released
//
// The rooms, and the sentence of each:
//
//	intake      informer events become calls on cache and queue
//	queue       who waits, in what order, and what will wake them
//	cache       what is where, including what is only assumed
//	framework   the runtime of kube-scheduler's contract for plugins
//	plugins     one concern each: why a node is fit, unfit or better
//	compile     is this spec runnable, and as what?
//	profile     the profiles that run now, and how they are replaced
//	cycle       one attempt to place one pod: filter, score, pick
//	preemption  who could make room
//	binding     every write to a Pod, and its undo
//	decision    what was decided and why
//
// No room calls another while it holds its lock.
package scheduler
