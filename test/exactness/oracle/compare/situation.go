package compare

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// situation is what an attempt is based on: the pod, the nodes and their pods, the other
// objects, and the arguments of the two plugins that count pods.
type situation struct {
	pod      *v1.Pod
	info     *framework.PodInfo
	nodes    []fwk.NodeInfo
	others   informers.SharedInformerFactory
	spread   *configv1.PodTopologySpreadArgs
	affinity *configv1.InterPodAffinityArgs
}

func newSituation(pod *v1.Pod, berth *run.Berth, theirs *upstream.Scheduler) *situation {
	s := &situation{pod: pod, others: theirs.Factory}
	s.info, _ = framework.NewPodInfo(pod)
	s.nodes = theirs.Nodes()
	args := berth.Blueprint().Args
	s.spread, _ = args["PodTopologySpread"].(*configv1.PodTopologySpreadArgs)
	s.affinity, _ = args["InterPodAffinity"].(*configv1.InterPodAffinityArgs)
	return s
}

// anyConstraint says whether matches is true for one of the pod's own constraints.
func (s *situation) anyConstraint(matches func(*v1.TopologySpreadConstraint) bool) bool {
	for i := range s.pod.Spec.TopologySpreadConstraints {
		if matches(&s.pod.Spec.TopologySpreadConstraints[i]) {
			return true
		}
	}
	return false
}

func (s *situation) hard() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule })
}

func (s *situation) soft() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.ScheduleAnyway })
}

// usesDefaults says whether default constraints apply to the pod.
func (s *situation) usesDefaults() bool {
	return s.spread != nil && len(s.pod.Spec.TopologySpreadConstraints) == 0 &&
		(s.spread.DefaultingType == configv1.SystemDefaulting || len(s.spread.DefaultConstraints) > 0) &&
		(s.selectedByService() || s.ownerOf("ReplicationController") || s.ownerOf("ReplicaSet") || s.ownerOf("StatefulSet"))
}

func (s *situation) usesSystemDefaults() bool {
	return s.usesDefaults() && s.spread.DefaultingType == configv1.SystemDefaulting
}

func (s *situation) usesHardDefault() bool { return s.usesDefault(v1.DoNotSchedule) }
func (s *situation) usesSoftDefault() bool { return s.usesDefault(v1.ScheduleAnyway) }

func (s *situation) usesDefault(action v1.UnsatisfiableConstraintAction) bool {
	if !s.usesDefaults() || s.spread.DefaultingType != configv1.ListDefaulting {
		return false
	}
	for _, c := range s.spread.DefaultConstraints {
		if c.WhenUnsatisfiable == action {
			return true
		}
	}
	return false
}

func (s *situation) usesServiceDefaults() bool { return s.usesDefaults() && s.selectedByService() }

func (s *situation) selectedByService() bool {
	services, _ := s.others.Core().V1().Services().Lister().Services(s.pod.Namespace).List(labels.Everything())
	for _, service := range services {
		if selector := service.Spec.Selector; selector != nil && labels.SelectorFromSet(selector).Matches(labels.Set(s.pod.Labels)) {
			return true
		}
	}
	return false
}

func ownedBy(kind string) func(*situation) bool {
	return func(s *situation) bool { return s.usesDefaults() && s.ownerOf(kind) }
}

// ownerOf says whether the pod's controller has this kind, and exists.
func (s *situation) ownerOf(kind string) bool {
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

// anyNode says whether matches is true for a node.
func (s *situation) anyNode(matches func(*v1.Node) bool) bool {
	for _, node := range s.nodes {
		if matches(node.Node()) {
			return true
		}
	}
	return false
}

func (s *situation) belowMinDomains() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
		domains := map[string]bool{}
		for _, node := range s.nodes {
			if domain, ok := node.Node().Labels[c.TopologyKey]; ok {
				domains[domain] = true
			}
		}
		return c.MinDomains != nil && int(*c.MinDomains) > len(domains)
	})
}

func (s *situation) affinityHonored() bool { return s.affinityPolicy(v1.NodeInclusionPolicyHonor) }
func (s *situation) affinityIgnored() bool { return s.affinityPolicy(v1.NodeInclusionPolicyIgnore) }

// affinityPolicy says whether a constraint has this policy, and the pod's node affinity
// excludes nodes.
func (s *situation) affinityPolicy(policy v1.NodeInclusionPolicy) bool {
	wants := nodeaffinity.GetRequiredNodeAffinity(s.pod)
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
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

func (s *situation) taintsHonored() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
		return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor && s.anyNode(func(node *v1.Node) bool {
			return framework.UntoleratedTaint(node.Spec.Taints, s.pod.Spec.Tolerations) != nil
		})
	})
}

func (s *situation) usesMatchLabelKeys() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
		for _, key := range c.MatchLabelKeys {
			if _, ok := s.pod.Labels[key]; ok {
				return true
			}
		}
		return false
	})
}

func (s *situation) hasUnequalSelectors() bool {
	list := s.pod.Spec.TopologySpreadConstraints
	return len(list) > 1 && s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
		return metav1.FormatLabelSelector(c.LabelSelector) != metav1.FormatLabelSelector(list[0].LabelSelector)
	})
}

func (s *situation) selectsOthersOnly() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool { return !selects(c.LabelSelector, s.pod) })
}

func (s *situation) someNodeLacksKey() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
		return s.anyNode(func(node *v1.Node) bool { _, ok := node.Labels[c.TopologyKey]; return !ok })
	})
}

func (s *situation) spreadByRack() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool { return c.TopologyKey == rack })
}

func (s *situation) terminatingLeftOut() bool {
	return s.anyConstraint(func(c *v1.TopologySpreadConstraint) bool {
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

// anyPod says whether matches is true for a bound pod.
func (s *situation) anyPod(matches func(fwk.PodInfo) bool) bool {
	for _, node := range s.nodes {
		for _, pod := range node.GetPods() {
			if matches(pod) {
				return true
			}
		}
	}
	return false
}

const rack = generate.Rack

func (s *situation) hasAffinity() bool     { return len(s.info.GetRequiredAffinityTerms()) > 0 }
func (s *situation) hasAntiAffinity() bool { return len(s.info.GetRequiredAntiAffinityTerms()) > 0 }
func (s *situation) prefersAffinity() bool { return len(s.info.GetPreferredAffinityTerms()) > 0 }
func (s *situation) prefersAntiAffinity() bool {
	return len(s.info.GetPreferredAntiAffinityTerms()) > 0
}

// labelsOf returns the labels of a namespace, none when it does not exist.
func (s *situation) labelsOf(namespace string) labels.Set {
	if found, err := s.others.Core().V1().Namespaces().Lister().Get(namespace); err == nil {
		return found.Labels
	}
	return nil
}

// anyMatches says whether one of terms matches the pod.
func (s *situation) anyMatches(terms []fwk.AffinityTerm, pod *v1.Pod) bool {
	namespace := s.labelsOf(pod.Namespace)
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return t.Matches(pod, namespace) })
}

func (s *situation) excludedByOthers() bool {
	return s.anyPod(func(other fwk.PodInfo) bool { return s.anyMatches(other.GetRequiredAntiAffinityTerms(), s.pod) })
}

func (s *situation) requiredByOthers() bool {
	return s.affinity != nil && *s.affinity.HardPodAffinityWeight > 1 &&
		s.anyPod(func(other fwk.PodInfo) bool { return s.anyMatches(other.GetRequiredAffinityTerms(), s.pod) })
}

// preferredByOthers says whether preferred terms of bound pods match the pod.
func (s *situation) preferredByOthers() bool {
	return s.anyPod(func(other fwk.PodInfo) bool {
		for _, t := range slices.Concat(other.GetPreferredAffinityTerms(), other.GetPreferredAntiAffinityTerms()) {
			if t.Matches(s.pod, s.labelsOf(s.pod.Namespace)) {
				return true
			}
		}
		return false
	})
}

func (s *situation) preferencesCounted() bool {
	return s.affinity != nil && !s.affinity.IgnorePreferredTermsOfExistingPods && s.preferredByOthers()
}

func (s *situation) preferencesIgnored() bool {
	return s.affinity != nil && s.affinity.IgnorePreferredTermsOfExistingPods && !s.prefersAffinity() && !s.prefersAntiAffinity() && s.preferredByOthers()
}

// anyTerm says whether matches is true for one of the pod's terms, required or preferred.
func (s *situation) anyTerm(matches func(*v1.PodAffinityTerm) bool) bool {
	if s.pod.Spec.Affinity == nil {
		return false
	}
	var required []v1.PodAffinityTerm
	var preferred []v1.WeightedPodAffinityTerm
	if a := s.pod.Spec.Affinity.PodAffinity; a != nil {
		required, preferred = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := s.pod.Spec.Affinity.PodAntiAffinity; a != nil {
		required = slices.Concat(required, a.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred = slices.Concat(preferred, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(required, func(t v1.PodAffinityTerm) bool { return matches(&t) }) ||
		slices.ContainsFunc(preferred, func(t v1.WeightedPodAffinityTerm) bool { return matches(&t.PodAffinityTerm) })
}

func (s *situation) namedNamespaces() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 })
}

func (s *situation) namespaceSelector() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool {
		return t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0
	})
}

func (s *situation) allNamespaces() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool {
		return t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
	})
}

func (s *situation) matchKeys() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool { return len(t.MatchLabelKeys) > 0 })
}

func (s *situation) mismatchKeys() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool { return len(t.MismatchLabelKeys) > 0 })
}

func (s *situation) affinityByRack() bool {
	return s.anyTerm(func(t *v1.PodAffinityTerm) bool { return t.TopologyKey == rack })
}

// allMatch says whether every required affinity term of the pod matches another.
func (s *situation) allMatch(other *v1.Pod) bool {
	for _, t := range s.info.GetRequiredAffinityTerms() {
		if !t.Matches(other, s.labelsOf(other.Namespace)) {
			return false
		}
	}
	return s.hasAffinity()
}

func (s *situation) firstOfGroup() bool {
	return s.allMatch(s.pod) && !s.anyPod(func(other fwk.PodInfo) bool { return s.allMatch(other.GetPod()) })
}

func (s *situation) terminatingCounted() bool {
	return s.anyPod(func(other fwk.PodInfo) bool {
		pod := other.GetPod()
		return pod.DeletionTimestamp != nil && (s.allMatch(pod) || s.anyMatches(s.info.GetRequiredAntiAffinityTerms(), pod))
	})
}

// anyVolume says whether matches is true for one of the pod's volumes.
func (s *situation) anyVolume(matches func(*v1.Volume) bool) bool {
	for i := range s.pod.Spec.Volumes {
		if matches(&s.pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func (s *situation) hasEphemeral() bool {
	return s.anyVolume(func(v *v1.Volume) bool { return v.Ephemeral != nil })
}

func (s *situation) hasDisk() bool {
	return s.anyVolume(func(v *v1.Volume) bool {
		return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
	})
}

// anyClaim says whether matches is true for one of the pod's claims that exist.
func (s *situation) anyClaim(matches func(*v1.PersistentVolumeClaim) bool) bool {
	claims := s.others.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(s.pod.Namespace)
	return s.anyVolume(func(v *v1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		claim, err := claims.Get(v.PersistentVolumeClaim.ClaimName)
		return err == nil && matches(claim)
	})
}

func (s *situation) hasBoundClaim() bool {
	return s.anyClaim(func(c *v1.PersistentVolumeClaim) bool { return c.Spec.VolumeName != "" })
}

func (s *situation) hasUnboundClaim() bool {
	return s.anyClaim(func(c *v1.PersistentVolumeClaim) bool { return c.Spec.VolumeName == "" })
}

func (s *situation) hasReadWriteOncePod() bool {
	return s.anyClaim(func(c *v1.PersistentVolumeClaim) bool {
		return slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod)
	})
}
