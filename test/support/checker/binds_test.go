package checker

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/fixture"
)

// requests makes the containers of pods request cpu.
func requests(s *story, object, cpu string) {
	edit(s, object, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = fixture.Resources("cpu", cpu) })
}

// ports gives the containers of a pod a port of the node.
func ports(s *story, object string, port int32) {
	edit(s, object, func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: port})
	})
}

// node is n1 as it is in the story.
func node() *fixture.NodeBuilder {
	return fixture.Node("n1").Capacity("cpu", "4", "memory", "8Gi", "pods", "3").Label("zone", "z1")
}

// addNode adds a node, so that decisions name a version of nodes that is newer than all before.
func (s *story) addNode() { s.put(fixture.Node("n3").Capacity("cpu", "0", "pods", "1").Obj()) }

// bindPlants are wrong binds.
var bindPlants = []planted{
	{"a pod moves to another node", "end", func(s *story) {
		moved := s.versions("Pod shop/web-3")[1].Object.(*corev1.Pod).DeepCopy()
		moved.Spec.NodeName = "n2"
		s.put(moved)
	}, "I1 Pod shop/web-3", `it was on n1 and is on "n2"`},
	{"a pod is bound to a node with too little CPU for it", "end", func(s *story) { requests(s, "Pod shop/web-3", "3") },
		"I1 Pod shop/web-3", "5 of 4 cpu are requested"},
	{"an init container needs more than the node has left", "end", func(s *story) {
		edit(s, "Pod shop/web-3", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: fixture.Resources("cpu", "2500m")}}}
		})
	}, "I1 Pod shop/web-3", "4500m of 4 cpu are requested"},
	{"a node has one pod too many", "end", func(s *story) {
		edit(s, "Node n1", func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourcePods] = fixture.Resources("pods", "1")["pods"]
		})
	}, "I1 Pod shop/web-3", "2 of 1 pods are requested"},
	{"a node has one pod too many for a moment", "end", func(s *story) {
		edit(s, "Node n1", func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourcePods] = fixture.Resources("pods", "1")["pods"]
		})
		s.remove(s.versions("Pod shop/db-1")[2].Object)
	}, "I1 Pod shop/web-3", "2 of 1 pods are requested"},
	{"two pods have a port of one node", "end", func(s *story) { ports(s, "Pod shop/db-1", 80); ports(s, "Pod shop/web-3", 80) },
		"I1 Pod shop/web-3", "shop/db-1 has port 80 there"},
	{"a pod does not tolerate a taint that its decision knew", "before web-3", func(s *story) {
		s.put(node().Taint("gpu", "yes", corev1.TaintEffectNoSchedule).Obj())
	}, "I1 Pod shop/web-3", "it has the taint gpu=yes:NoSchedule"},
	{"a node is unschedulable", "before web-3", func(s *story) { s.put(node().Unschedulable().Obj()) },
		"I1 Pod shop/web-3", "it is unschedulable"},
	{"a pod selects other nodes", "end", func(s *story) {
		edit(s, "Pod shop/web-3", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z2"} })
	}, "I1 Pod shop/web-3", "it lacks the label zone=z2"},
	{"a pod requires other nodes", "end", func(s *story) {
		edit(s, "Pod shop/web-3", func(p *corev1.Pod) {
			p.Spec.Affinity = fixture.Pod("x").RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.NotIn("zone", "z1"))).Obj().Spec.Affinity
		})
	}, "I1 Pod shop/web-3", "no term of the pod's node affinity matches it"},
	{"a pod is beside one that its anti-affinity forbids", "end", func(s *story) {
		edit(s, "Pod shop/web-3", func(p *corev1.Pod) {
			p.Spec.Affinity = fixture.Pod("x").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "db")).Obj().Spec.Affinity
		})
	}, "I1 Pod shop/web-3", "shop/db-1 is there, from which its anti-affinity keeps it"},
	{"a pod is beside one whose anti-affinity forbids it", "end", func(s *story) {
		edit(s, "Pod shop/web-3", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
		edit(s, "Pod shop/db-1", func(p *corev1.Pod) {
			p.Spec.Affinity = fixture.Pod("x").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web")).Obj().Spec.Affinity
		})
	}, "I1 Pod shop/web-3", "shop/db-1 is there, whose anti-affinity keeps it away"},
	{"a pod is bound to a node that does not exist", "before web-3", func(s *story) { s.target = "n9" },
		"I1 Pod shop/web-3", "the node did not exist"},
	{"a claim has no volume when its pod is bound", "end", func(s *story) {
		edit(s, "PersistentVolumeClaim shop/data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" })
	}, "I1 Pod shop/disk-1", "its claim data has no volume"},
	{"a volume is of another node", "end", func(s *story) {
		edit(s, "PersistentVolume v1", func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = fixture.Volume("x", "").NodeAffinity(corev1.LabelHostname, "n1").Obj().Spec.NodeAffinity
		})
	}, "I1 Pod shop/disk-1", "volume v1 of its claim data is not for this node"},
	{"a volume is bound to another claim", "end", func(s *story) {
		edit(s, "PersistentVolume v1", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" })
	}, "I1 Pod shop/disk-1", "is bound to another claim"},
	{"a volume is reserved for another claim", "end", func(s *story) {
		edit(s, "PersistentVolume v1", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID, v.Spec.ClaimRef.Name = "", "another" })
		s.Audit = slices.DeleteFunc(s.Audit, func(e audit.Entry) bool { return e.ObjectRef.Resource == "persistentvolumes" })
	}, "I1 Pod shop/disk-1", "is bound to another claim"},
	{"two pods use a claim of one pod", "end", func(s *story) {
		edit(s, "Pod shop/web-2", func(p *corev1.Pod) { p.Spec.Volumes = fixture.Pod("x").Bare().Claim("data").Obj().Spec.Volumes })
	}, "I1 Pod shop/disk-1", "its claim data is ReadWriteOncePod, and pod web-2 uses it"},
	{"a device is allocated twice", "end", func(s *story) {
		s.put(fixture.ResourceClaim("shop/gpu2").UID("gpu2").Request("r", "c").Allocated("n2", "d/p/0").Obj())
	}, "I1 ResourceClaim shop/gpu2", "device d/p/0 is allocated to it, and to another claim"},
	{"a claim for devices is not allocated when its pod is bound", "end", func(s *story) {
		edit(s, "ResourceClaim shop/gpu", func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil })
		s.put(fixture.ResourceClaim("shop/gpu").UID("gpu").Request("r", "c").Allocated("n2", "d/p/0").Obj())
	}, "I1 Pod shop/gpu-1", "its ResourceClaim gpu is not allocated"},
	{"devices are of another node", "end", func(s *story) {
		edit(s, "ResourceClaim shop/gpu", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation.NodeSelector = fixture.Allocation("n1").NodeSelector
		})
	}, "I1 Pod shop/gpu-1", "the devices of its ResourceClaim gpu are not of this node"},
	{"a claim is not reserved for its pod", "end", func(s *story) {
		edit(s, "ResourceClaim shop/gpu", func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil })
	}, "I1 Pod shop/gpu-1", "its ResourceClaim gpu is not reserved for it"},

	{"a pod that fits waits for longer than a minute", "web-3 waits", func(s *story) {
		for range 40 {
			s.now = s.now.Add(2 * time.Second)
			s.lease("b", 1)
		}
	}, "I2 Pod shop/web-3", "although it fits on n"},
	{"a pod whose spread is not required waits for longer than a minute", "before web-3", func(s *story) {
		soft := pod("shop/soft-1", "100m").Spread(corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
		}).Obj()
		s.put(soft)
		for range 40 {
			s.now = s.now.Add(2 * time.Second)
			s.lease("b", 1)
		}
		s.bind(soft, "n1")
	}, "I2 Pod shop/soft-1", "although it fits on n"},

	{"a bind has no annotation", "end", func(s *story) {
		edit(s, "Pod shop/gpu-1", func(p *corev1.Pod) { p.Annotations = nil })
		edit(s, "SchedulingProfile batch", setBound(s.bound-1))
	}, "I4 Pod shop/gpu-1", "without an annotation"},
	{"an annotation names another node", "end", decide("Pod shop/web-3", "node", "n2"), "I4 Pod shop/web-3", "bound to n1 by a decision for n2"},
	{"an annotation names another profile", "end", func(s *story) {
		redecide(s, "Pod shop/web-3", func(d map[string]any) { d["profile"] = "other" })
		edit(s, "SchedulingProfile batch", setBound(s.bound-1))
	}, "I4 Pod shop/web-3", "its decision is of profile other"},
	{"a bind is by a hash that never ran", "end", decide("Pod shop/web-3", "hash", "h9"), "I4 Pod shop/web-3", `"h1" ran when it was made`},
	{"a bind is by a generation that never was", "end", decide("Pod shop/web-3", "generation", 9), "I4 Pod shop/web-3", "never had that generation"},
	{"a bind is by a hash that another one had replaced before", "before web-3", func(s *story) {
		s.addNode()
		s.point, s.plant = "end", func(s *story) {
			redecide(s, "Pod shop/web-3", func(d map[string]any) { d["hash"], d["generation"] = "h1", 1 })
		}
	}, "I4 Pod shop/web-3", `"h2" ran when it was made`},
	{"a decision names versions that came later", "end", decide("Pod shop/web-3", "walk", map[string]any{"nodes": 20, "pods": 5000}),
		"I4 Pod shop/web-3", "that came later"},
	{"a decision has another best node", "before the swap", func(s *story) {
		s.profile.Spec.Decisions.Detail = v1alpha1.DetailNodes
		s.point, s.plant = "end", decide("Pod shop/web-3", "top", []any{map[string]any{"node": "n2", "score": 3}})
	}, "I4 Pod shop/web-3", "has n2 as the best node, and chose n1"},

	{"an earlier leader binds a pod that was written after its successor had the Lease", "web-3 waits", func(s *story) {
		s.versions("ConfigMap berth-system/berth-bindings")[2].Object.(*corev1.ConfigMap).Data["fence"] = "fresh"
		s.point, s.plant = "end", decide("Pod shop/web-3", "epoch", 0)
	}, "I7 Pod shop/web-3", "and its successor had the Lease at"},
	{"an earlier leader binds after the fence of its successor", "end", func(s *story) {
		edit(s, "Lease berth-system/berth-manager", func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = nil })
		decide("Pod shop/web-3", "epoch", 0)(s)
	}, "I7 Pod shop/web-3", "after epoch 1 had fenced the pods of earlier leaders"},
	{"an earlier leader decides after its successor has the Lease", "before web-3", func(s *story) {
		s.addNode()
		s.versions("ConfigMap berth-system/berth-bindings")[2].Object.(*corev1.ConfigMap).Data["fence"] = "fresh"
		s.point, s.plant = "end", decide("Pod shop/web-3", "epoch", 0)
	}, "I7 Pod shop/web-3", "and its successor had the Lease at"},
	{"an earlier leader binds after its successor has bound", "end", func(s *story) {
		edit(s, "ConfigMap berth-system/berth-bindings", func(c *corev1.ConfigMap) { c.Data["fence"] = "all" })
		redecide(s, "Pod shop/gpu-1", func(d map[string]any) { d["epoch"] = 0 })
	}, "I7 Pod shop/gpu-1", "by leader epoch 0, after epoch 1 had bound"},
	{"a bind has an epoch that the Lease never had", "end", decide("Pod shop/gpu-1", "epoch", 5), "I7 Pod shop/gpu-1", "the Lease has had 1 transitions"},
}

// decide changes a field of the annotation of a bound pod.
func decide(object, field string, value any) func(*story) {
	return func(s *story) {
		redecide(s, object, func(d map[string]any) { d[field] = value })
	}
}

// allowed are histories without a violation.
var allowed = []planted{
	{sentence: "a taint comes after the decision", at: "web-3 waits", plant: func(s *story) {
		nodes := s.nodes
		s.put(node().Taint("gpu", "yes", corev1.TaintEffectNoSchedule).Obj())
		s.nodes = nodes
	}},
	{sentence: "a node shrinks after the decision", at: "web-3 waits", plant: func(s *story) {
		nodes := s.nodes
		s.put(node().Capacity("cpu", "1").Obj())
		s.nodes = nodes
	}},
	{sentence: "another scheduler fills the node after the decision", at: "web-3 waits", plant: func(s *story) {
		pods := s.pods
		s.put(fixture.Pod("other/big").SchedulerName("else").Requests("cpu", "4").On("n1").Obj())
		s.pods = pods
	}},
	{sentence: "a pod that has ended uses nothing", at: "before web-3", plant: func(s *story) {
		s.put(fixture.Pod("other/done").SchedulerName("else").Requests("cpu", "4").On("n1").Mutate(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }).Obj())
	}},
	{sentence: "a leader ends before it nominates a pod, which the next one binds elsewhere", at: "before web-3", plant: func(s *story) {
		low, high := pod("shop/low-1", "100m").Priority(0).Obj(), pod("shop/high-1", "100m").Priority(100).Obj()
		s.put(low)
		s.bind(low, "n2")
		s.put(high)
		victim(low)
		s.put(low)
		s.epoch = 2
		s.lease("c", 2)
		s.journal("done")
		s.bind(high, "n1")
	}},
	{sentence: "devices of a claim back an extended resource that no node has", at: "before web-3", plant: func(s *story) {
		p := fixture.Pod("shop/card-1").SchedulerName("batch").Requests("cpu", "100m", "example.com/card", "1").Obj()
		s.put(p)
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: "card-1-x", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c0", ResourceName: "example.com/card", RequestName: "r"}},
		}
		s.put(p)
		s.bind(p, "n1")
	}},
	{sentence: "a swap is written to the status after a bind by the new spec", at: "end", plant: func(s *story) {
		redecide(s, "Pod shop/db-1", func(d map[string]any) { d["hash"], d["generation"] = "h2", 2 })
	}},
	{sentence: "the Lease is deleted, and the epochs begin again", at: "after the swap", plant: func(s *story) {
		s.remove(s.versions("Lease berth-system/berth-manager")[0].Object)
		s.point, s.plant = "before web-3", func(s *story) {
			s.remove(s.versions("Lease berth-system/berth-manager")[2].Object)
			s.epoch = 0
			s.lease("c", 0)
			s.journal("done")
		}
	}},
	{sentence: "a status names a pod that was deleted before the history began", at: "before the status", plant: func(s *story) {
		first := s.versions("SchedulingProfile batch")[0]
		first.Listed = true
		s.profile.Status.RecentDecisions = append(s.profile.Status.RecentDecisions, decisionAbout("gone-1", first.Seen.Add(-time.Second)))
	}},
	{sentence: "an administrator reserved a volume for a claim", at: "end", plant: func(s *story) {
		edit(s, "PersistentVolume v1", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" })
	}},
	{sentence: "the spec of a profile changes often, and few pods are bound", at: "before the status", plant: func(s *story) {
		s.bindMany()
		for i := range 20 {
			s.run(fmt.Sprintf("h%d", i+3))
		}
		s.writeOften(mostWrites * 30)
	}},
	{sentence: "a pod waits while no leader holds the Lease", at: "web-3 waits", plant: func(s *story) { s.now = s.now.Add(5 * time.Minute); s.lease("b", 1) }},
}
