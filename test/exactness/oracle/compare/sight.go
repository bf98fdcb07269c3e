package compare

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// sight is what an attempt had before it: the pod, the nodes and the pods on
// them, what owns pods, and the arguments of the two plugins that count pods.
type sight struct {
	pod      *v1.Pod
	info     *framework.PodInfo
	nodes    []fwk.NodeInfo
	others   informers.SharedInformerFactory
	spread   *configv1.PodTopologySpreadArgs
	affinity *configv1.InterPodAffinityArgs
}

func newSight(pod *v1.Pod, berth *run.Berth, theirs *upstream.Scheduler) *sight {
	s := &sight{pod: pod, others: theirs.Factory}
	s.info, _ = framework.NewPodInfo(pod)
	s.nodes = theirs.Nodes()
	args := berth.Blueprint().Args
	s.spread, _ = args["PodTopologySpread"].(*configv1.PodTopologySpreadArgs)
	s.affinity, _ = args["InterPodAffinity"].(*configv1.InterPodAffinityArgs)
	return s
}

// own reports whether one of the pod's own constraints is such.
func (s *sight) own(such func(*v1.TopologySpreadConstraint) bool) bool {
	for i := range s.pod.Spec.TopologySpreadConstraints {
		if such(&s.pod.Spec.TopologySpreadConstraints[i]) {
			return true
		}
	}
	return false
}

func (s *sight) hard() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule })
}

func (s *sight) soft() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.ScheduleAnyway })
}

// byDefault reports whether default constraints apply to the pod.
func (s *sight) byDefault() bool {
	return s.spread != nil && len(s.pod.Spec.TopologySpreadConstraints) == 0 &&
		(s.spread.DefaultingType == configv1.SystemDefaulting || len(s.spread.DefaultConstraints) > 0) &&
		(s.selectedByService() || s.ownerOf("ReplicationController") || s.ownerOf("ReplicaSet") || s.ownerOf("StatefulSet"))
}

func (s *sight) system() bool {
	return s.byDefault() && s.spread.DefaultingType == configv1.SystemDefaulting
}

func (s *sight) listedHard() bool { return s.listed(v1.DoNotSchedule) }
func (s *sight) listedSoft() bool { return s.listed(v1.ScheduleAnyway) }

func (s *sight) listed(action v1.UnsatisfiableConstraintAction) bool {
	if !s.byDefault() || s.spread.DefaultingType != configv1.ListDefaulting {
		return false
	}
	for _, c := range s.spread.DefaultConstraints {
		if c.WhenUnsatisfiable == action {
			return true
		}
	}
	return false
}

func (s *sight) ofService() bool { return s.byDefault() && s.selectedByService() }

func (s *sight) selectedByService() bool {
	services, _ := s.others.Core().V1().Services().Lister().Services(s.pod.Namespace).List(labels.Everything())
	for _, service := range services {
		if selector := service.Spec.Selector; selector != nil && labels.SelectorFromSet(selector).Matches(labels.Set(s.pod.Labels)) {
			return true
		}
	}
	return false
}

func ownedBy(kind string) func(*sight) bool {
	return func(s *sight) bool { return s.byDefault() && s.ownerOf(kind) }
}

// ownerOf reports whether the pod's controller is of a kind, and is there.
func (s *sight) ownerOf(kind string) bool {
	owner := metav1.GetControllerOfNoCopy(s.pod)
	if owner == nil || owner.Kind != kind {
		return false
	}
	var err error
	switch core, apps := s.others.Core().V1(), s.others.Apps().V1(); kind {
	case "ReplicationController":
		_, err = core.ReplicationControllers().Lister().ReplicationControllers(s.pod.Namespace).Get(owner.Name)
	case "ReplicaSet":
		_, err = apps.ReplicaSets().Lister().ReplicaSets(s.pod.Namespace).Get(owner.Name)
	default:
		_, err = apps.StatefulSets().Lister().StatefulSets(s.pod.Namespace).Get(owner.Name)
	}
	return err == nil
}

// anyNode reports whether a node is such.
func (s *sight) anyNode(such func(*v1.Node) bool) bool {
	for _, node := range s.nodes {
		if such(node.Node()) {
			return true
		}
	}
	return false
}

func (s *sight) fewDomains() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		domains := map[string]bool{}
		for _, node := range s.nodes {
			if domain, ok := node.Node().Labels[c.TopologyKey]; ok {
				domains[domain] = true
			}
		}
		return c.MinDomains != nil && int(*c.MinDomains) > len(domains)
	})
}

func (s *sight) affinityHonored() bool { return s.affinityPolicy(v1.NodeInclusionPolicyHonor) }
func (s *sight) affinityIgnored() bool { return s.affinityPolicy(v1.NodeInclusionPolicyIgnore) }

// affinityPolicy reports whether a constraint has this policy, and the pod's
// node affinity leaves nodes out.
func (s *sight) affinityPolicy(policy v1.NodeInclusionPolicy) bool {
	wants := nodeaffinity.GetRequiredNodeAffinity(s.pod)
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		is := v1.NodeInclusionPolicyHonor
		if c.NodeAffinityPolicy != nil {
			is = *c.NodeAffinityPolicy
		}
		return is == policy && s.anyNode(func(node *v1.Node) bool {
			selected, _ := wants.Match(node)
			return !selected
		})
	})
}

func (s *sight) taintsHonored() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor && s.anyNode(func(node *v1.Node) bool {
			return framework.UntoleratedTaint(node.Spec.Taints, s.pod.Spec.Tolerations) != nil
		})
	})
}

func (s *sight) sameLabels() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		for _, key := range c.MatchLabelKeys {
			if _, ok := s.pod.Labels[key]; ok {
				return true
			}
		}
		return false
	})
}

func (s *sight) unequal() bool {
	list := s.pod.Spec.TopologySpreadConstraints
	return len(list) > 1 && s.own(func(c *v1.TopologySpreadConstraint) bool {
		return metav1.FormatLabelSelector(c.LabelSelector) != metav1.FormatLabelSelector(list[0].LabelSelector)
	})
}

func (s *sight) outsider() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool { return !selects(c.LabelSelector, s.pod) })
}

func (s *sight) keyless() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		return s.anyNode(func(node *v1.Node) bool { _, ok := node.Labels[c.TopologyKey]; return !ok })
	})
}

func (s *sight) spreadByRack() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool { return c.TopologyKey == rack })
}

func (s *sight) leaverUncounted() bool {
	return s.own(func(c *v1.TopologySpreadConstraint) bool {
		return s.anyPod(func(other fwk.PodInfo) bool {
			pod := other.GetPod()
			return pod.DeletionTimestamp != nil && pod.Namespace == s.pod.Namespace && selects(c.LabelSelector, pod)
		})
	})
}

func selects(selector *metav1.LabelSelector, pod *v1.Pod) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(pod.Labels))
}

// anyPod reports whether a placed pod is such.
func (s *sight) anyPod(such func(fwk.PodInfo) bool) bool {
	for _, node := range s.nodes {
		for _, pod := range node.GetPods() {
			if such(pod) {
				return true
			}
		}
	}
	return false
}
