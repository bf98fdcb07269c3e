package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// newPod returns a pending pod. Most pods use one or two features.
func (g *Generator) newPod() *v1.Pod {
	g.podCount++
	if g.preempting != nil && g.chance(60) {
		return g.uniformPod()
	}
	pod := fixture.Pod(fmt.Sprintf("%s/p%d", pick(g.random, namespaces), g.podCount)).Bare().Obj()
	pod.Spec.SchedulerName = g.config.Profile.Name
	if g.chance(85) {
		pod.Labels = g.podLabels()
	}
	for range draw(g.random, []weighted[int]{{1, 0}, {6, 1}, {4, 2}, {2, 3}}) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container("c", len(pod.Spec.Containers)))
	}
	for _, feature := range []struct {
		percent int
		add     func(*v1.Pod)
	}{
		{15, g.addInit}, {6, g.addOverhead}, {6, g.addPodLevel},
		{25, g.addPriority}, {10, g.addSelector}, {12, g.addRequired}, {25, g.addPreferred},
		{35, g.addTolerations}, {12, g.addHostPorts}, {8, g.addFeature}, {2, g.addName}, {3, g.addNomination},
		{15, g.addSpread}, {15, func(pod *v1.Pod) { g.addPodAffinity(pod, 33) }}, {25, g.addOwner},
		{12, g.addVolumes},
	} {
		if g.chance(feature.percent) {
			feature.add(pod)
		}
	}
	if g.preempting != nil {
		g.addPreemptionFields(pod)
	}
	if g.devices.pools > 0 && g.attempts > 0 && g.chance(30) {
		g.addDevices(pod)
		g.createOwnClaim(pod)
	}
	if g.podCount%4 != 0 {
		fixture.AddWorkloadFields(&pod.Spec) // by number and not by chance: the histories of old seeds stay as they are
	}
	return pod
}

func (g *Generator) container(prefix string, i int) v1.Container {
	c := v1.Container{Name: fmt.Sprintf("%s%d", prefix, i), Resources: v1.ResourceRequirements{Requests: g.requests()}}
	if g.chance(75) {
		c.Image = pick(g.random, images)
	}
	return c
}

// requests are those of one container: often cpu and memory, sometimes none, sometimes much.
func (g *Generator) requests() v1.ResourceList {
	list := v1.ResourceList{}
	ask := func(percent int, name v1.ResourceName, amounts ...string) {
		if g.chance(percent) {
			list[name] = resource.MustParse(pick(g.random, amounts))
		}
	}
	if g.chance(12) {
		return nil
	}
	ask(80, v1.ResourceCPU, "100m", "250m", "500m", "1", "1500m", "2", "1m", "0", "3333m")
	ask(75, v1.ResourceMemory, "64Mi", "256Mi", "1Gi", "2Gi", "3G", "123456789", "0")
	ask(12, v1.ResourceEphemeralStorage, "1Gi", "5Gi", "20Gi", "0")
	for _, name := range some(g.random, extended, 2) {
		ask(8, name, "1", "2", "0")
	}
	return list
}

func (g *Generator) addInit(pod *v1.Pod) {
	always := v1.ContainerRestartPolicyAlways
	for i := range g.between(1, 3) {
		c := g.container("i", i)
		if g.chance(40) {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
}

func (g *Generator) addOverhead(pod *v1.Pod) {
	pod.Spec.Overhead = fixture.Resources("cpu", pick(g.random, []string{"50m", "250m"}), "memory", "100Mi")
}

// addPodLevel sets requests of the pod as a whole. They must not be below the sum of its
// containers' requests, which are therefore small.
func (g *Generator) addPodLevel(pod *v1.Pod) {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Requests = fixture.Resources("cpu", "100m")
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: fixture.Resources("cpu", pick(g.random, []string{"500m", "1", "3"}))}
	if g.chance(60) {
		pod.Spec.Resources.Requests[v1.ResourceMemory] = resource.MustParse(pick(g.random, []string{"512Mi", "2Gi"}))
	}
}

func (g *Generator) addPriority(pod *v1.Pod) {
	priority := pick(g.random, priorities)
	pod.Spec.Priority = &priority
}

func (g *Generator) addTolerations(pod *v1.Pod) {
	for range g.between(1, 4) {
		t := v1.Toleration{
			Key:      pick(g.random, taintKeys),
			Operator: draw(g.random, []weighted[v1.TolerationOperator]{{5, v1.TolerationOpEqual}, {4, v1.TolerationOpExists}, {2, ""}, {1, v1.TolerationOpLt}}),
		}
		if t.Operator != v1.TolerationOpExists {
			t.Value = pick(g.random, taintValues)
		} else if g.chance(15) {
			t.Key = "" // tolerates every key
		}
		if g.chance(70) {
			t.Effect = pick(g.random, effects)
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
}

func (g *Generator) addHostPorts(pod *v1.Pod) {
	if len(pod.Spec.Containers) == 0 {
		return
	}
	pod.Spec.HostNetwork = g.chance(20)
	for range g.between(1, 2) {
		containers := pod.Spec.Containers
		if len(pod.Spec.InitContainers) > 0 && g.chance(25) {
			containers = pod.Spec.InitContainers
		}
		c := &containers[g.IntN(len(containers))]
		port := pick(g.random, hostPorts)
		c.Ports = append(c.Ports, v1.ContainerPort{
			HostIP: pick(g.random, hostIPs), Protocol: pick(g.random, protocols), HostPort: port, ContainerPort: port,
		})
	}
}

// addFeature lets the pod use a feature that a node has to declare.
func (g *Generator) addFeature(pod *v1.Pod) {
	no := false
	switch {
	case len(pod.Spec.Containers) == 0 || g.chance(34):
		pod.Spec.HostNetwork, pod.Spec.HostUsers = true, &no
	case g.chance(50):
		c := &pod.Spec.Containers[0]
		c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	default:
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", BindMountOptions: []string{"noexec"}}}
	}
}

func (g *Generator) addNomination(pod *v1.Pod) { pod.Status.NominatedNodeName = g.someNode() }

// changePod changes a bound pod: its requests, what its kubelet reports as allocated, its
// labels, or its end.
func (g *Generator) changePod(pod *v1.Pod) {
	if len(pod.Spec.Containers) == 0 || g.chance(15) {
		now := metav1.NewTime(pod.CreationTimestamp.AddDate(0, 0, 1))
		pod.DeletionTimestamp = &now
		return
	}
	c := &pod.Spec.Containers[g.IntN(len(pod.Spec.Containers))]
	switch g.IntN(4) {
	case 0:
		pod.Labels = g.podLabels()
	case 1:
		c.Resources.Requests = g.requests()
	default:
		// A resize: requests, allocated and actual resources differ.
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: c.Name, AllocatedResources: g.requests()}}
		if g.chance(70) {
			pod.Status.ContainerStatuses[0].Resources = &v1.ResourceRequirements{Requests: g.requests()}
		}
		if g.chance(30) {
			pod.Status.Conditions = []v1.PodCondition{{
				Type: v1.PodResizePending, Status: v1.ConditionTrue,
				Reason: pick(g.random, []string{v1.PodReasonInfeasible, v1.PodReasonDeferred}),
			}}
		}
	}
}
