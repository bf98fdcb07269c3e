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
//	intake          informer events become calls on cache and queue
//	queue           who waits, in what order, and what will wake them
//	cache           what is where, including what is only assumed
//	framework       the runtime of kube-scheduler's contract for plugins
//	plugins         one concern each: why a node is fit, unfit or better
//	extender        HTTP extenders, as plugins see them
//	compile         is this spec runnable, and as what?
//	upstreamconfig  kube-scheduler's configuration as profiles, and back
//	profile         the profiles that run now, and how they are replaced
//	trial           what would it do? real pods, on a copy of the cluster
//	scope           informers lent to one generation, and taken back
//	cycle           one attempt to place one pod: filter, score, pick
//	preemption      who could make room
//	offline         cycle, cache and plugins on objects that are given to them
//	binding         every write to a Pod, and its undo
//	tenure          for how long this process may write, and what there is when it begins
//	volumes         which claim holds which volume, including what is only assumed
//	decision        what was decided and why
//	unserved        pods that wait for a scheduler that is not there
//	recorder        what happened, told as Events that yield to binds
//	inspect         what the rooms hold, for whoever looks in
//	fault           what can be broken on purpose, in a build for that alone
//
// No room calls another while it holds its lock.
package scheduler
