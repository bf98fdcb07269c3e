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

// actionKinds are all actions, each with its weight.
var actionKinds []actionKind

const createsPods = "a pod is created"

func init() {
	actionKinds = []actionKind{
		{createsPods, 20, true, createPod},
		{"a pod is deleted", 4, false, removePod},
		{"a pod begins to terminate", 2, false, terminatePod},
		{podEnds, 3, false, finishPod},
		{"a pod loses a label", 5, false, unlabelPod},
		{"a pod gets a label that no plugin reads", 3, false, touchPod},
		{"a pod loses its gates", 3, false, ungatePod},
		{"a pod gets a toleration", 2, false, toleratePod},
		{"a pod is nominated by another component", 1, false, nominatePod},
		{"another scheduler's pod is bound", 2, false, bindOtherPod},
		{"another component binds a pod of ours", 1, false, bindElsewhere},
		{"a node is added", 3, true, addNode},
		{"a node is deleted", 2, false, removeNode},
		{"a node is replaced", 1, false, replaceNode},
		{"a node is resized", 3, false, resizeNode},
		{"a node is tainted or untainted", 3, false, taintNode},
		{"a node is cordoned or uncordoned", 2, false, cordonNode},
		{"a node changes its tier", 3, false, relabelNode},
		{"a node's heartbeat", 2, false, sendHeartbeat},
		{"a profile is applied", 6, false, applyProfile},
		{"a profile gets a spec that is refused", 2, false, refuseProfile},
		{"a profile gets a spec that cannot be built", 2, false, breakProfile},
		{"a profile is paused or resumed", 3, false, pauseProfile},
		{"a profile is deleted", 2, false, deleteProfile},
		{"a pod at Permit is allowed", 4, false, allowPod},
		{"a pod at Permit is rejected", 2, false, rejectPod},
		{"pods are activated", 2, false, activatePods},
		{"a watch breaks", 3, false, breakWatch},
		{"the process is killed", 1, false, func(sim *simulation, _ *rand.Rand) bool { sim.killProcess(); return true }},
	}
}

func itoa(i int) string { return strconv.Itoa(i) }

// pick returns a random item for which fit is true; ok is false where there is none.
func pick[T any](random *rand.Rand, from []T, fit func(T) bool) (found T, ok bool) {
	var fitting []T
	for _, one := range from {
		if fit(one) {
			fitting = append(fitting, one)
		}
	}
	if len(fitting) == 0 {
		return found, false
	}
	return fitting[random.IntN(len(fitting))], true
}

func createPod(sim *simulation, random *rand.Rand) bool {
	name := fmt.Sprintf("p%d", random.IntN(len(sim.plan)/2+4))
	if _, taken := sim.server.pods["shop/"+name]; taken {
		return false
	}
	profile := sim.settings.profileNames[random.IntN(len(sim.settings.profileNames))]
	pod := fixture.Pod("shop/"+name).UID("u"+itoa(sim.server.version)).SchedulerName(profile).
		Requests("cpu", itoa(1+random.IntN(4))).Priority(int32(random.IntN(5)))
	if random.IntN(12) == 0 {
		pod.Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) })
	}
	if random.IntN(8) == 0 {
		pod.SchedulingGate("quota")
	}
	if random.IntN(8) == 0 {
		pod.HostPort("", v1.ProtocolTCP, int32(80+random.IntN(2)))
	}
	if random.IntN(6) == 0 {
		pod.Mutate(tolerate)
	}
	if random.IntN(6) == 0 {
		pod.Mutate(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	}
	if label := []string{permitLabel, permitLabel, holdLabel, "", "", "", ""}[random.IntN(7)]; label != "" {
		pod.Label(label, []string{"wait", "wait", "wait", "refuse"}[random.IntN(4)])
	}
	if random.IntN(25) == 0 && !sim.hasGangs() { // GangScheduling gates the pods of a group that does not exist
		pod.Mutate(func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")} })
	}
	if sim.hasVolumes() {
		sim.addClaims(pod, random)
	}
	if sim.hasDevices() {
		sim.addDeviceClaims(pod, random)
	}
	sim.addPod(pod.Mutate(func(p *v1.Pod) { fixture.AddWorkloadFields(&p.Spec) }).Obj())
	return true
}

func tolerate(p *v1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "wet", Operator: v1.TolerationOpExists})
}

// withPod calls do with a random pod for which fit is true.
func withPod(sim *simulation, random *rand.Rand, fit func(*v1.Pod) bool, do func(*v1.Pod)) bool {
	pod, ok := pick(random, sim.server.sortedPods(), fit)
	if ok {
		do(pod)
	}
	return ok
}

// updatePod stores a changed copy of a pod and logs it.
func (sim *simulation) updatePod(pod *v1.Pod, what string, change func(*v1.Pod)) {
	sim.logf("outside: pod %s %s", describe(sim.server.editPod(keyOf(pod), change)), what)
}

func removePod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, func(*v1.Pod) bool { return true }, func(pod *v1.Pod) {
		sim.logf("outside: pod %s is deleted", describe(pod))
		sim.server.dropPod(keyOf(pod))
	})
}

func terminatePod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, func(p *v1.Pod) bool { return p.DeletionTimestamp == nil }, func(pod *v1.Pod) {
		sim.updatePod(pod, "terminates", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: sim.clock.now} })
	})
}

func finishPod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, func(p *v1.Pod) bool { return p.Spec.NodeName != "" && isLivePod(p) }, func(pod *v1.Pod) {
		sim.updatePod(pod, "has succeeded", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	})
}

func unlabelPod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, func(p *v1.Pod) bool { return len(p.Labels) > 0 }, func(pod *v1.Pod) {
		sim.updatePod(pod, "loses its labels", func(p *v1.Pod) { p.Labels = nil })
	})
}

func touchPod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, isPending, func(pod *v1.Pod) {
		sim.updatePod(pod, "gets a label", func(p *v1.Pod) {
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels["touched"] = itoa(sim.server.version)
		})
	})
}

func ungatePod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, func(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }, func(pod *v1.Pod) {
		sim.updatePod(pod, "loses its scheduling gates", func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
	})
}

func toleratePod(sim *simulation, random *rand.Rand) bool {
	return withPod(sim, random, isPending, func(pod *v1.Pod) { sim.updatePod(pod, "gets a toleration", tolerate) })
}

func nominatePod(sim *simulation, random *rand.Rand) bool {
	node, ok := pick(random, sim.server.sortedNodes(), func(*v1.Node) bool { return true })
	return ok && withPod(sim, random, isPending, func(pod *v1.Pod) {
		sim.updatePod(pod, "is nominated for "+node.Name, func(p *v1.Pod) { p.Status.NominatedNodeName = node.Name })
	})
}

// bindOtherPod creates a bound pod of a DaemonSet or of another scheduler.
func bindOtherPod(sim *simulation, random *rand.Rand) bool {
	node, ok := pick(random, sim.server.sortedNodes(), func(*v1.Node) bool { return true })
	if !ok {
		return false
	}
	version := itoa(sim.server.version)
	pod := fixture.Pod("system/d"+version).UID("u"+version).SchedulerName("others").Requests("cpu", "1").On(node.Name).Obj()
	sim.server.putPod(pod)
	sim.logf("outside: pod %s of another scheduler", describe(pod))
	return true
}

// bindElsewhere leaves pods with host ports alone: where another component binds two pods with
// one port to a node, kube-scheduler forgets the port when the first of them is deleted, and
// Berth decides as it does.
func bindElsewhere(sim *simulation, random *rand.Rand) bool {
	node, ok := pick(random, sim.server.sortedNodes(), func(*v1.Node) bool { return true })
	return ok && withPod(sim, random, isPending, func(pod *v1.Pod) {
		if len(ports(pod)) > 0 {
			return
		}
		sim.boundElsewhere[pod.UID] = true
		sim.updatePod(pod, "is bound by another component", func(p *v1.Pod) { p.Spec.NodeName = node.Name })
	})
}

// activatePods calls Handle.Activate, as a plugin may.
func activatePods(sim *simulation, random *rand.Rand) bool {
	if len(sim.probes) == 0 {
		return false
	}
	handle := sim.probes[random.IntN(len(sim.probes))].handle
	pods := map[string]*v1.Pod{}
	for _, pod := range sim.server.sortedPods() {
		if isPending(pod) && random.IntN(2) == 0 {
			pods[keyOf(pod)] = pod
		}
	}
	sim.logf("a plugin activates %d pods", len(pods))
	sim.tasks.start("activation", func() { handle.Activate(klog.Background(), pods) })
	return len(pods) > 0
}

// breakWatch ends a watch; the informer lists again.
func breakWatch(sim *simulation, random *rand.Rand) bool {
	watch := sim.informers[random.IntN(len(sim.informers))]
	if watch.handler == nil {
		return false
	}
	sim.logf("the watch of %s breaks %d writes behind; it lists again", watch.name, len(sim.server.log)-watch.logIndex)
	watch.listAgain()
	return true
}

// pickWaitingPod picks a pod that waits on Permit.
func pickWaitingPod(sim *simulation, random *rand.Rand) types.UID {
	var uids []types.UID
	for _, pod := range sim.server.sortedPods() {
		if sim.sched.Components().Waiting.Has(pod.UID) {
			uids = append(uids, pod.UID)
		}
	}
	if len(uids) == 0 {
		return ""
	}
	return uids[random.IntN(len(uids))]
}

func allowPod(sim *simulation, random *rand.Rand) bool {
	uid := pickWaitingPod(sim, random)
	if uid == "" {
		return false
	}
	sim.logf("a plugin allows %s", uid)
	sim.sched.Components().Waiting.Get(uid).Allow(probeName)
	return true
}

func rejectPod(sim *simulation, random *rand.Rand) bool {
	uid := pickWaitingPod(sim, random)
	if uid == "" {
		return false
	}
	sim.logf("a plugin rejects %s", uid)
	sim.sched.Components().Waiting.Get(uid).Reject(probeName, "requested by the simulation")
	return true
}

func cpuOf(pod *v1.Pod) *resource.Quantity { return pod.Spec.Containers[0].Resources.Requests.Cpu() }

var tiers = []string{"", "gold", "tin"}

func newNode(name string, version int, random *rand.Rand) *v1.Node {
	node := fixture.Node(name).Capacity("cpu", itoa(2+random.IntN(7)), "pods", itoa(2+random.IntN(5))).
		Zone([]string{"x", "y"}[random.IntN(2)]).
		Mutate(func(n *v1.Node) { n.UID += types.UID("-" + itoa(version)) })
	if tier := tiers[random.IntN(len(tiers))]; tier != "" {
		node.Label(tierLabel, tier)
	}
	if random.IntN(2) == 0 {
		node.Label("disk", "ssd")
	}
	return node.Obj()
}

func addNode(sim *simulation, random *rand.Rand) bool {
	name := "n" + itoa(random.IntN(sim.settings.nodes+2))
	if _, taken := sim.server.nodes[name]; taken {
		return false
	}
	sim.putNode(newNode(name, sim.server.version, random))
	return true
}

func (sim *simulation) putNode(node *v1.Node) {
	sim.server.putNode(node)
	sim.logNode(node.Name)
}

// logNode logs the state of a node.
func (sim *simulation) logNode(name string) {
	node := sim.server.nodes[name]
	sim.logf("outside: node %s (version %s) offers %s cpu and %s pods, labels %v, taints %d, cordoned %v", name, node.ResourceVersion,
		node.Status.Allocatable.Cpu(), node.Status.Allocatable.Pods(), node.Labels, len(node.Spec.Taints), node.Spec.Unschedulable)
}

func withNode(sim *simulation, random *rand.Rand, do func(name string)) bool {
	node, ok := pick(random, sim.server.sortedNodes(), func(*v1.Node) bool { return true })
	if ok {
		do(node.Name)
	}
	return ok
}

func editNode(sim *simulation, random *rand.Rand, change func(*v1.Node)) bool {
	return withNode(sim, random, func(name string) {
		sim.server.editNode(name, change)
		sim.logNode(name)
	})
}

func removeNode(sim *simulation, random *rand.Rand) bool {
	return withNode(sim, random, func(name string) {
		sim.logf("outside: node %s is deleted", name)
		sim.server.dropNode(name)
	})
}

// replaceNode deletes a node and adds another one of the same name.
func replaceNode(sim *simulation, random *rand.Rand) bool {
	return withNode(sim, random, func(name string) {
		sim.logf("outside: node %s is deleted", name)
		sim.server.dropNode(name)
		sim.putNode(newNode(name, sim.server.version, random))
	})
}

func resizeNode(sim *simulation, random *rand.Rand) bool {
	return editNode(sim, random, func(n *v1.Node) {
		n.Status.Allocatable = fixture.Resources("cpu", itoa(1+random.IntN(9)), "pods", itoa(1+random.IntN(6)))
	})
}

func taintNode(sim *simulation, random *rand.Rand) bool {
	return editNode(sim, random, func(n *v1.Node) {
		if len(n.Spec.Taints) > 0 {
			n.Spec.Taints = nil
			return
		}
		n.Spec.Taints = []v1.Taint{{Key: "wet", Effect: v1.TaintEffectNoSchedule}}
	})
}

func cordonNode(sim *simulation, random *rand.Rand) bool {
	return editNode(sim, random, func(n *v1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
}

func relabelNode(sim *simulation, random *rand.Rand) bool {
	return editNode(sim, random, func(n *v1.Node) {
		if tier := tiers[random.IntN(len(tiers))]; tier != "" {
			n.Labels[tierLabel] = tier
		} else {
			delete(n.Labels, tierLabel)
		}
	})
}

func sendHeartbeat(sim *simulation, random *rand.Rand) bool {
	return editNode(sim, random, func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = itoa(sim.server.version) })
}
