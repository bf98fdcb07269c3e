package ui

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Profile is what the page shows of a SchedulingProfile.
type Profile struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Ready, Reason and Message are of the condition Ready; Ready is Unknown until Berth has
	// observed the newest generation.
	Ready   string `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Degraded is the message of the condition Degraded; empty while it is not True.
	Degraded   string `json:"degraded"`
	Generation int64  `json:"generation"`
	// Runs is the generation that is running, nil for none.
	Runs         *int64                      `json:"runs"`
	Hash         string                      `json:"hash"`
	Revision     string                      `json:"revision"`
	Queue        v1alpha1.QueueStatus        `json:"queue"`
	Totals       v1alpha1.DecisionTotals     `json:"totals"`
	LastDecision *metav1.Time                `json:"lastDecision"`
	Conditions   []Condition                 `json:"conditions"`
	Trial        *Trial                      `json:"trial"`
	Plugins      []v1alpha1.ProgrammedPlugin `json:"plugins"`
	Recent       []Recent                    `json:"recent"`
	Created      metav1.Time                 `json:"created"`
}

// Condition is a condition of a profile.
type Condition struct {
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
}

// Trial is the newest trial of a profile.
type Trial struct {
	Sampled   int64  `json:"sampled"`
	FitBefore *int64 `json:"fitBefore"`
	FitAfter  int64  `json:"fitAfter"`
	// Lost are pods, as namespace/name.
	Lost []string    `json:"lost"`
	Time metav1.Time `json:"time"`
}

// Recent is a recent decision of a profile.
type Recent struct {
	Time metav1.Time `json:"time"`
	// Pod is namespace/name.
	Pod     string `json:"pod"`
	Result  string `json:"result"`
	Node    string `json:"node"`
	Message string `json:"message"`
}

// profileRecord returns what the page shows of a profile.
func profileRecord(object client.Object) any {
	p := object.(*v1alpha1.SchedulingProfile)
	record := Profile{
		Name: p.Name, State: string(p.Spec.State), Generation: p.Generation, Created: p.CreationTimestamp,
		Queue: ptr.Deref(p.Status.Queue, v1alpha1.QueueStatus{}), Totals: ptr.Deref(p.Status.Totals, v1alpha1.DecisionTotals{}),
		LastDecision: p.Status.LastDecisionTime, Trial: trialOf(p.Status.Trial),
		Conditions: []Condition{}, Plugins: []v1alpha1.ProgrammedPlugin{}, Recent: []Recent{},
	}
	record.setReady(p)
	if runs := p.Status.Programmed; runs != nil {
		record.Runs, record.Hash, record.Revision = &runs.Generation, runs.Hash, runs.Revision
		record.Plugins = append(record.Plugins, runs.Plugins...)
	}
	for _, c := range p.Status.Conditions {
		record.Conditions = append(record.Conditions, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime,
		})
	}
	for _, d := range p.Status.RecentDecisions {
		record.Recent = append(record.Recent, Recent{
			Time: d.Time, Pod: d.Namespace + "/" + d.Pod, Result: string(d.Result), Node: d.Node, Message: d.Message,
		})
	}
	return record
}

// setReady sets the fields that the conditions Ready and Degraded are about.
func (record *Profile) setReady(p *v1alpha1.SchedulingProfile) {
	ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil:
		record.Ready, record.Reason = string(metav1.ConditionUnknown), "NotObserved"
		record.Message = "Berth has not observed the profile yet."
	case ready.ObservedGeneration < p.Generation:
		record.Ready, record.Reason = string(metav1.ConditionUnknown), "NotObserved"
		record.Message = fmt.Sprintf("Berth has not observed generation %d yet.", p.Generation)
	default:
		record.Ready, record.Reason, record.Message = string(ready.Status), ready.Reason, ready.Message
	}
	degraded := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionDegraded))
	if degraded != nil && degraded.Status == metav1.ConditionTrue {
		record.Degraded = degraded.Message
	}
}

func trialOf(t *v1alpha1.TrialStatus) *Trial {
	if t == nil {
		return nil
	}
	trial := &Trial{Sampled: t.Sampled, FitBefore: t.FitBefore, FitAfter: t.FitAfter, Lost: []string{}, Time: t.Time}
	for _, pod := range t.Lost {
		trial.Lost = append(trial.Lost, pod.Namespace+"/"+pod.Pod)
	}
	return trial
}

// Node is what the page shows of a node. Resources are the allocatable ones.
type Node struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
	// InstanceType is of the node's well-known label, empty without it.
	InstanceType string `json:"instanceType,omitempty"`
	Ready        bool   `json:"ready"`
	Cordoned     bool   `json:"cordoned"`
	// Taints are as key=value:effect.
	Taints []string `json:"taints"`
	// CPU is in millicores, Memory in bytes.
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	Pods   int64 `json:"pods"`
	// Extended are the extended resources.
	Extended map[string]int64 `json:"extended"`
	// Devices is how many devices the ResourceSlices of the node have.
	Devices int `json:"devices"`
}

// nodeRecord returns what the page shows of a node. Its devices are counted elsewhere.
func nodeRecord(object client.Object) any {
	node := object.(*corev1.Node)
	has := node.Status.Allocatable
	record := Node{
		Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], InstanceType: node.Labels[corev1.LabelInstanceTypeStable], Cordoned: node.Spec.Unschedulable,
		CPU: has.Cpu().MilliValue(), Memory: has.Memory().Value(), Pods: has.Pods().Value(),
		Taints: []string{}, Extended: map[string]int64{},
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			record.Ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, taint := range node.Spec.Taints {
		record.Taints = append(record.Taints, taint.ToString())
	}
	for name, quantity := range has {
		if isExtended(name) {
			record.Extended[string(name)] = quantity.Value()
		}
	}
	return record
}

// isExtended reports whether a resource is an extended one, by the scheduler's rule: it has a
// domain that does not end in kubernetes.io, and is not the name of a quota.
func isExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), "kubernetes.io/") && !strings.HasPrefix(string(name), "requests.")
}

// nodeDevices is how many devices a ResourceSlice has on a node.
type nodeDevices struct {
	node    string
	devices int
}

// sliceRecord counts the devices of a ResourceSlice; nil for a slice that is not of one node.
func sliceRecord(object client.Object) any {
	slice := object.(*resourcev1.ResourceSlice)
	node := ptr.Deref(slice.Spec.NodeName, "")
	if node == "" {
		return nil
	}
	return nodeDevices{node: node, devices: len(slice.Spec.Devices)}
}
