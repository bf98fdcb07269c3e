package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/test/support/fixture"
)

// kinds are all that the outside can do, each with its weight.
var kinds []kind

const createsPods = "a pod is created"

func init() {
	kinds = []kind{
		{createsPods, 20, true, createPod},
		{"a pod is deleted", 4, false, removePod},
		{"a pod begins to terminate", 2, false, terminatePod},
		{"a pod has ended", 3, false, finishPod},
		{"a pod loses a label", 5, false, unlabelPod},
		{"a pod gets a label that means nothing", 3, false, touchPod},
		{"a pod loses its gates", 3, false, ungatePod},
		{"a pod gets a toleration", 2, false, toleratePod},
		{"a pod is nominated from outside", 1, false, nominatePod},
		{"somebody else places a pod of theirs", 2, false, foreignPod},
		{"somebody else binds a pod of ours", 1, false, foreignBind},
		{"a node is added", 3, true, addNode},
		{"a node is deleted", 2, false, removeNode},
		{"a node is replaced", 1, false, replaceNode},
		{"a node is resized", 3, false, resizeNode},
		{"a node is tainted, or not any more", 3, false, taintNode},
		{"a node is cordoned, or not any more", 2, false, cordonNode},
		{"a node changes its tier", 3, false, relabelNode},
		{"a node's heartbeat", 2, false, heartbeat},
		{"a profile is applied", 6, false, applyProfile},
		{"a profile gets a spec that is refused", 2, false, refuseProfile},
		{"a profile gets a spec that cannot be built", 2, false, breakProfile},
		{"a profile is paused, or goes on", 3, false, pauseProfile},
		{"a profile is deleted", 2, false, deleteProfile},
		{"a pod at Permit is allowed", 4, false, allowPod},
		{"a pod at Permit is rejected", 2, false, rejectPod},
		{"a pod is activated", 2, false, activatePod},
		{"a watch breaks", 3, false, breakWatch},
		{"the process is killed", 1, false, func(w *world, _ *rand.Rand) bool { w.crash(); return true }},
	}
}

func itoa(i int) string { return strconv.Itoa(i) }

// someone picks one of those that fit, or nothing.
func someone[T any](dice *rand.Rand, from []T, fit func(T) bool) (found T, ok bool) {
	var fitting []T
	for _, one := range from {
		if fit(one) {
			fitting = append(fitting, one)
		}
	}
	if len(fitting) == 0 {
		return found, false
	}
	return fitting[dice.IntN(len(fitting))], true
}

func createPod(w *world, dice *rand.Rand) bool {
	name := fmt.Sprintf("p%d", dice.IntN(len(w.plan)/2+4))
	if _, taken := w.server.pods["shop/"+name]; taken {
		return false
	}
	profile := w.swarm.names[dice.IntN(len(w.swarm.names))]
	pod := fixture.Pod("shop/"+name).UID("u"+itoa(w.server.version)).SchedulerName(profile).
		Requests("cpu", itoa(1+dice.IntN(4))).Priority(int32(dice.IntN(5)))
	if dice.IntN(12) == 0 {
		pod.Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) })
	}
	if dice.IntN(8) == 0 {
		pod.SchedulingGate("quota")
	}
	if dice.IntN(8) == 0 {
		pod.HostPort("", v1.ProtocolTCP, int32(80+dice.IntN(2)))
	}
	if dice.IntN(6) == 0 {
		pod.Mutate(tolerate)
	}
	if dice.IntN(6) == 0 {
		pod.Mutate(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	}
	if label := []string{permitLabel, permitLabel, holdLabel, "", "", "", ""}[dice.IntN(7)]; label != "" {
		pod.Label(label, []string{"wait", "wait", "wait", "refuse"}[dice.IntN(4)])
	}
	if dice.IntN(25) == 0 {
		pod.Mutate(func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} })
	}
	w.create(pod.Mutate(func(p *v1.Pod) { fixture.AddWorkloadFields(&p.Spec) }).Obj())
	return true
}

func tolerate(p *v1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "wet", Operator: v1.TolerationOpExists})
}

// withPod does something to one of the pods that fit.
func withPod(w *world, dice *rand.Rand, fit func(*v1.Pod) bool, do func(*v1.Pod)) bool {
	pod, ok := someone(dice, w.server.sortedPods(), fit)
	if ok {
		do(pod)
	}
	return ok
}

// edit changes a pod and tells so.
func (w *world) edit(pod *v1.Pod, what string, change func(*v1.Pod)) {
	w.say("outside: pod %s %s", describe(w.server.editPod(keyOf(pod), change)), what)
}

func removePod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, func(*v1.Pod) bool { return true }, func(pod *v1.Pod) {
		w.say("outside: pod %s is gone", describe(pod))
		w.server.dropPod(keyOf(pod))
	})
}

func terminatePod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, func(p *v1.Pod) bool { return p.DeletionTimestamp == nil }, func(pod *v1.Pod) {
		w.edit(pod, "terminates", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.clock.now} })
	})
}

func finishPod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, func(p *v1.Pod) bool { return p.Spec.NodeName != "" && isLivePod(p) }, func(pod *v1.Pod) {
		w.edit(pod, "has succeeded", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	})
}

func unlabelPod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, func(p *v1.Pod) bool { return len(p.Labels) > 0 }, func(pod *v1.Pod) {
		w.edit(pod, "has no labels any more", func(p *v1.Pod) { p.Labels = nil })
	})
}

func touchPod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, isPending, func(pod *v1.Pod) {
		w.edit(pod, "got a label", func(p *v1.Pod) {
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels["touched"] = itoa(w.server.version)
		})
	})
}

func ungatePod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, func(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }, func(pod *v1.Pod) {
		w.edit(pod, "has no gates any more", func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
	})
}

func toleratePod(w *world, dice *rand.Rand) bool {
	return withPod(w, dice, isPending, func(pod *v1.Pod) { w.edit(pod, "tolerates more", tolerate) })
}

func nominatePod(w *world, dice *rand.Rand) bool {
	node, ok := someone(dice, w.server.sortedNodes(), func(*v1.Node) bool { return true })
	return ok && withPod(w, dice, isPending, func(pod *v1.Pod) {
		w.edit(pod, "is nominated for "+node.Name, func(p *v1.Pod) { p.Status.NominatedNodeName = node.Name })
	})
}

// foreignPod is a pod of a DaemonSet or of another scheduler.
func foreignPod(w *world, dice *rand.Rand) bool {
	node, ok := someone(dice, w.server.sortedNodes(), func(*v1.Node) bool { return true })
	if !ok {
		return false
	}
	version := itoa(w.server.version)
	pod := fixture.Pod("system/d"+version).UID("u"+version).SchedulerName("others").Requests("cpu", "1").On(node.Name).Obj()
	w.server.putPod(pod)
	w.say("outside: pod %s, not ours", describe(pod))
	return true
}

// foreignBind leaves pods with host ports alone: of two pods with one port on a
// node, where only somebody else can put them, kube-scheduler forgets the port
// with the first that leaves, and Berth decides as it does.
func foreignBind(w *world, dice *rand.Rand) bool {
	node, ok := someone(dice, w.server.sortedNodes(), func(*v1.Node) bool { return true })
	return ok && withPod(w, dice, isPending, func(pod *v1.Pod) {
		if len(ports(pod)) > 0 {
			return
		}
		w.theirs[pod.UID] = true
		w.edit(pod, "is bound by somebody else", func(p *v1.Pod) { p.Spec.NodeName = node.Name })
	})
}

// activatePod does what a plugin may: it makes some pods active at once.
func activatePod(w *world, dice *rand.Rand) bool {
	if len(w.probes) == 0 {
		return false
	}
	handle := w.probes[dice.IntN(len(w.probes))].handle
	pods := map[string]*v1.Pod{}
	for _, pod := range w.server.sortedPods() {
		if isPending(pod) && dice.IntN(2) == 0 {
			pods[keyOf(pod)] = pod
		}
	}
	w.say("a plugin activates %d pods", len(pods))
	w.tasks.start("activation", func() { handle.Activate(klog.Background(), pods) })
	return len(pods) > 0
}

// breakWatch breaks a watch off; what follows is a list.
func breakWatch(w *world, dice *rand.Rand) bool {
	watch := w.watches[dice.IntN(len(w.watches))]
	if watch.handler == nil {
		return false
	}
	w.say("the watch of %s breaks %d writes behind; a list follows", watch.name, len(w.server.log)-watch.from)
	watch.list()
	return true
}

// waiting picks a pod that waits at Permit.
func waiting(w *world, dice *rand.Rand) types.UID {
	var uids []types.UID
	for _, pod := range w.server.sortedPods() {
		if w.sched.Components().Waiting.Has(pod.UID) {
			uids = append(uids, pod.UID)
		}
	}
	if len(uids) == 0 {
		return ""
	}
	return uids[dice.IntN(len(uids))]
}

func allowPod(w *world, dice *rand.Rand) bool {
	uid := waiting(w, dice)
	if uid == "" {
		return false
	}
	w.say("a plugin allows %s", uid)
	w.sched.Components().Waiting.Get(uid).Allow(probeName)
	return true
}

func rejectPod(w *world, dice *rand.Rand) bool {
	uid := waiting(w, dice)
	if uid == "" {
		return false
	}
	w.say("a plugin rejects %s", uid)
	w.sched.Components().Waiting.Get(uid).Reject(probeName, "as told")
	return true
}

func cpuOf(pod *v1.Pod) *resource.Quantity { return pod.Spec.Containers[0].Resources.Requests.Cpu() }
