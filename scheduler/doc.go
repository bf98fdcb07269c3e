// Package scheduler is the scheduling loop: it takes one pod at a time from the queue
// to a node, in six steps.
//
//	1 queue.Pop            → Attempt
//	2 profile.Acquire      → Generation, one more reference
//	3 cache.UpdateSnapshot → the snapshot changes here and nowhere else
//	4 cycle.Run            → Placement, or an error that says why the pod fits no node
//	5 binding.Begin        → assume, Reserve, Permit; Finish runs in the binding cycle
//	6 record               → Decision, condition, event; the Attempt ends; the
//	                         Generation is released
//
// Its packages:
//
//	eventhandlers   informer events become calls on cache and queue
//	queue           pending pods: their order, and the events that requeue them
//	cache           nodes and their pods, assumed pods included
//	framework       the runtime of kube-scheduler's plugin contract
//	plugins         the in-tree plugins, one package each
//	extender        HTTP extenders behind the plugin interfaces
//	compile         a profile's spec becomes a Blueprint or a Rejection
//	upstreamconfig  KubeSchedulerConfiguration to profiles, and back
//	profile         the running profiles, and how they are replaced
//	scopedinformers informers that belong to one generation
//	cycle           one scheduling cycle: filter, score, select
//	preemption      which victims would make a pod fit
//	sandbox         cycle, cache and plugins on given objects, without an API server
//	binding         every write to a Pod, and its undo
//	leadership      whether this process may write; what a new leader reads first
//	devices         which claim gets which devices, assumed ones included
//	podgroups       groups of pods: their PodGroups and their pods
//	journal         the journal of Bindings, for the next leader
//	volumes         which claim is bound to which volume, assumed ones included
//	decision        what was decided, and why
//	explain         explanations of pending pods: the builder, and the queue to their writer
//	unserved        pods whose schedulerName no scheduler serves
//	recorder        Events, which yield to binds
//	debug           dumps of caches and queues
//	fieldpath       the value that the error of a decoder is about
//
// No package calls another one while it holds its lock.
package scheduler
