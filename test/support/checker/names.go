package checker

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/history"
)

// checkNames checks that no text that Berth writes into a namespace names a pod of another one:
// conditions of pods, SchedulingDecisions, and Events. It also checks that SchedulingDecisions
// name no nodes where the profile does not want that.
func (r *results) checkNames(t *timeline) {
	namespacesOf := map[string]map[string]bool{} // of pods, by name
	for k := range t.versions {
		if k.kind != "Pod" {
			continue
		}
		if namespacesOf[k.name] == nil {
			namespacesOf[k.name] = map[string]bool{}
		}
		namespacesOf[k.name][k.namespace] = true
	}
	for i := range t.History.Changes {
		change := &t.History.Changes[i]
		if change.Deleted {
			continue
		}
		texts, concerns := textsOf(t, change)
		if !concerns {
			continue
		}
		r.checked(I16)
		namespace := change.Object.GetNamespace()
		for _, text := range texts {
			if name := foreignName(text, namespace, namespacesOf); name != "" {
				r.fail(I16, change.Revision, keyOf(change.Object).String(), "it names pod %s of another namespace: %s", name, text)
				break
			}
		}
		if d, is := change.Object.(*v1alpha1.SchedulingDecision); is && namesNodes(d) && !t.wantsNodes(d.Status.Profile.Name) {
			r.fail(I16, change.Revision, keyOf(d).String(), "it names nodes, and spec.decisions.detail of profile %s is not Nodes", d.Status.Profile.Name)
		}
	}
}

// textsOf returns the texts of an object that Berth writes; concerns is false for other objects.
func textsOf(t *timeline, change *history.Change) (texts []string, concerns bool) {
	switch o := change.Object.(type) {
	case *corev1.Pod:
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.PodScheduled || c.Type == corev1.DisruptionTarget {
				texts = append(texts, c.Message)
			}
		}
		return texts, t.ours(o) && len(texts) > 0
	case *corev1.Event:
		return []string{o.Message}, t.profiles[o.ReportingController]
	case *v1alpha1.SchedulingDecision:
		texts = []string{o.Status.Message, o.Status.BlockedBy}
		for _, rejection := range o.Status.Rejections {
			texts = append(texts, rejection.Reason)
		}
		for _, node := range o.Status.ClosestNodes {
			for _, missing := range node.Missing {
				texts = append(texts, missing.Reason)
			}
		}
		return texts, true
	}
	return nil, false
}

// isNamePart reports whether a character can be part of namespace/name.
func isNamePart(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '/'
}

// foreignName returns a name in a text that only pods of other namespaces have. Names without a
// digit or a dash are left out: they may be words.
func foreignName(text, namespace string, namespacesOf map[string]map[string]bool) string {
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return !isNamePart(c) }) {
		word = strings.Trim(word, "./-")
		of, name, qualified := strings.Cut(word, "/")
		if qualified {
			if of != namespace && namespacesOf[name][of] {
				return word
			}
			continue
		}
		if namespaces := namespacesOf[word]; strings.ContainsAny(word, "-0123456789") && len(namespaces) > 0 && !namespaces[namespace] {
			return word
		}
	}
	return ""
}

// namesNodes reports whether a SchedulingDecision names nodes.
func namesNodes(d *v1alpha1.SchedulingDecision) bool {
	for _, rejection := range d.Status.Rejections {
		if rejection.ExampleNode != "" {
			return true
		}
	}
	for _, node := range d.Status.ClosestNodes {
		if node.Node != "" {
			return true
		}
	}
	return false
}

// wantsNodes reports whether a profile wanted nodes to be named at any time, or is not known.
func (t *timeline) wantsNodes(profile string) bool {
	versions := t.versions[key{"SchedulingProfile", "", profile}]
	for _, v := range versions {
		if v.Object.(*v1alpha1.SchedulingProfile).Spec.Decisions.Detail == v1alpha1.DetailNodes {
			return true
		}
	}
	return len(versions) == 0
}
