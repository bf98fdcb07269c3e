package ui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// maxFits is the number of sentences that say what would make a pod fit, at most.
const maxFits = 3

// Waiting is what the page shows of a SchedulingDecision: why a pod is pending.
type Waiting struct {
	// Key is namespace/name of the pod.
	Key     string `json:"key"`
	Result  string `json:"result"`
	Profile string `json:"profile"`
	// BlockedBy are the plugins that reject the pod.
	BlockedBy string `json:"blockedBy"`
	Message   string `json:"message"`
	// Total is the number of nodes, Feasible how many of them are feasible.
	Total      int32                `json:"total"`
	Feasible   int32                `json:"feasible"`
	Rejections []v1alpha1.Rejection `json:"rejections"`
	// Fits says what would make the pod fit on the closest nodes.
	Fits    []string                 `json:"fits"`
	Requeue []v1alpha1.RequeueEvents `json:"requeue"`
	// Where is the part of the queue that has the pod since Since.
	Where string       `json:"where"`
	Since *metav1.Time `json:"since"`
	// Group is namespace/name of the group that the pod is scheduled with, empty for none.
	Group      string      `json:"group"`
	LastChange metav1.Time `json:"lastChange"`

	// closest are the nodes that Fits is about.
	closest []v1alpha1.ClosestNode
}

// decisionRecord returns what the page shows of a SchedulingDecision; nil for one that
// records a binding.
func decisionRecord(object client.Object) any {
	d := object.(*v1alpha1.SchedulingDecision)
	s := &d.Status
	if s.Result == v1alpha1.ResultBound {
		return nil
	}
	record := Waiting{
		Key: keyOf(d), Result: string(s.Result), Profile: s.Profile.Name, BlockedBy: s.BlockedBy, Message: s.Message, LastChange: s.LastChange,
		Rejections: append([]v1alpha1.Rejection{}, s.Rejections...), Requeue: append([]v1alpha1.RequeueEvents{}, s.RequeueEvents...),
		closest: s.ClosestNodes,
	}
	if s.Nodes != nil {
		record.Total, record.Feasible = s.Nodes.Total, s.Nodes.Feasible
	}
	if s.Queue != nil {
		record.Where, record.Since = s.Queue.Where, &metav1.Time{Time: s.Queue.Since.Time}
	}
	if s.Group != nil {
		record.Group = d.Namespace + "/" + s.Group.Name
	}
	return record
}

// namesTaintsOf reports whether Fits may name a taint of one of these nodes.
func (w *Waiting) namesTaintsOf(nodes map[string]bool) bool {
	return slices.ContainsFunc(w.closest, func(near v1alpha1.ClosestNode) bool {
		return nodes[near.Node] && slices.ContainsFunc(near.Missing, func(m v1alpha1.Missing) bool { return m.Reason == reasonTaint })
	})
}

// fitsOf returns what would make a pod fit on its closest nodes, in different sentences.
// taintsOf returns the taints of a node, as key=value:effect.
func fitsOf(closest []v1alpha1.ClosestNode, taintsOf func(node string) []string) []string {
	fits := []string{}
	for _, near := range closest {
		var parts []string
		for _, m := range near.Missing {
			if part := fitOf(m, taintsOf(near.Node)); !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
		if len(parts) == 0 {
			continue
		}
		on := " on a node"
		if near.Node != "" {
			on = " on " + near.Node
		}
		if sentence := joinAnd(parts) + on; !slices.Contains(fits, sentence) {
			fits = append(fits, sentence)
		}
		if len(fits) == maxFits {
			break
		}
	}
	return fits
}

// joinAnd joins parts with commas, and "and" before the last one.
func joinAnd(parts []string) string {
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// fitsByReason are what would make the reasons of plugins go away that are not about amounts.
var fitsByReason = map[string]string{
	"node(s) were unschedulable":                                 "no cordon",
	"node(s) didn't match the requested node name":               "another spec.nodeName",
	"node(s) didn't have free ports for the requested pod ports": "free ports for the pod",
	"node(s) didn't match Pod's node affinity/selector":          "labels that match the pod's node affinity and selector",
	"node(s) didn't match pod affinity rules":                    "a pod that matches the pod's affinity in the domain",
	"node(s) didn't match pod anti-affinity rules":               "no pod that matches the pod's anti-affinity in the domain",
	"node(s) didn't satisfy existing pods anti-affinity rules":   "no pod in the domain whose anti-affinity matches the pod",
	"node(s) didn't match pod topology spread constraints":       "a larger maxSkew, or fewer matching pods in the domain",
	"node(s) exceed max volume count":                            "fewer attached volumes",
	"node(s) did not have enough free storage":                   "more free storage",
	"node(s) didn't find available persistent volumes to bind":   "an available PersistentVolume",
	"node(s) didn't match PersistentVolume's node affinity":      "volumes whose node affinity matches",
	"node(s) had no available volume zone":                       "volumes of the node's zone",
	"Too many pods":                                              "1 more pod",
}

// reasonTaint is the reason of plugin TaintToleration.
const reasonTaint = "node(s) had untolerated taint(s)"

// fitOf returns what would make one reason go away, without the name of the node.
func fitOf(m v1alpha1.Missing, taints []string) string {
	switch {
	case m.DeviceRequest != "":
		return moreOf(m, "devices for "+m.DeviceRequest)
	case m.Resource != "":
		return moreOf(m, m.Resource)
	case m.Reason == reasonTaint:
		return toleration(taints)
	case fitsByReason[m.Reason] != "":
		return fitsByReason[m.Reason]
	}
	return fmt.Sprintf("no rejection by %s (%s)", m.Plugin, strings.TrimPrefix(m.Reason, "node(s) "))
}

// ownTaints begins the keys of taints that Kubernetes sets on nodes that are not well, such as
// node.kubernetes.io/not-ready. A pod that tolerates them is worse off.
const ownTaints = "node.kubernetes.io/"

// toleration names the taint of a node that a pod does not tolerate. Which of several it is,
// the decision does not say.
func toleration(taints []string) string {
	taints = slices.DeleteFunc(slices.Clone(taints), func(taint string) bool { return strings.HasSuffix(taint, ":PreferNoSchedule") })
	if len(taints) != 1 {
		return "no untolerated taint"
	}
	taint, _, _ := strings.Cut(taints[0], ":")
	if strings.HasPrefix(taint, ownTaints) {
		return "no taint " + taint
	}
	return "a toleration of taint " + taint
}

// moreOf returns the amount by which what is free falls short of what is requested.
func moreOf(m v1alpha1.Missing, what string) string {
	requested, err := resource.ParseQuantity(m.Requested)
	if err != nil {
		return "more " + what
	}
	free, err := resource.ParseQuantity(m.Free)
	if err != nil || free.Cmp(requested) >= 0 {
		return "more " + what
	}
	requested.Sub(free)
	if m.Resource == "pods" && requested.Value() == 1 {
		what = "pod"
	}
	return fmt.Sprintf("%s more %s", amount(m.Resource, requested), what)
}

// The units of amounts of bytes, the largest first.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}}

// amount returns an amount of a resource with few digits, rounded up: Quantity.String returns
// 38500m for 38.5 CPUs, and 102378Gi for almost 100Ti.
func amount(name string, q resource.Quantity) string {
	switch {
	case name == "cpu" && q.MilliValue() >= 1000:
		return strconv.FormatFloat(float64(q.MilliValue())/1000, 'f', -1, 64)
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		for _, unit := range byteUnits {
			if n := q.Value(); n >= unit.bytes {
				tenths := math.Ceil(float64(n) * 10 / float64(unit.bytes))
				return strconv.FormatFloat(tenths/10, 'f', -1, 64) + unit.name
			}
		}
	}
	return q.String()
}
