package scheduler

import (
	"regexp"
	"strings"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
)

// A SchedulingDecision is read by whoever may read its namespace. What built-in
// plugins say of a node names nobody. Other plugins, PostFilter and the API
// server say what they like.

// message is the text of an attempt that ended with err, without what a tenant
// may not read, and as long as an explanation has room for. No more than twice
// that is searched: a name that the search would cut in two is cut off.
func (s *Scheduler) redactedMessage(t *schedulingCycle, err error) string {
	text := decision.Truncate(err.Error(), 2*decision.MaxExplanation)
	return decision.Truncate(s.redact(t, text), decision.MaxExplanation)
}

// wording returns what words the reasons of plugins without what a tenant may
// not read.
func (s *Scheduler) redactor(t *schedulingCycle) func(plugin, reason string) string {
	return func(plugin, reason string) string {
		if t.generation.Framework.InTree(plugin) {
			return reason
		}
		return s.redact(t, reason)
	}
}

// name is what may be the name of an object, or several with slashes between.
var objectNames = regexp.MustCompile(`[a-z0-9]([a-z0-9./-]*[a-z0-9])?`)

// discreet writes <node> for names of nodes, unless the profile's explanations
// name them, and <pod> for pods of other namespaces that are named as
// namespace/name.
func (s *Scheduler) redact(t *schedulingCycle, text string) string {
	if fault.TenantsReadAll {
		return text
	}
	return objectNames.ReplaceAllStringFunc(text, func(word string) string {
		parts := strings.Split(word, "/")
		if len(parts) == 2 && parts[0] != t.Pod.Namespace {
			if _, err := s.options.Informers.Core().V1().Pods().Lister().Pods(parts[0]).Get(parts[1]); err == nil {
				return "<pod>"
			}
		}
		for i, part := range parts {
			if s.isHiddenNode(t, part) {
				parts[i] = "<node>"
			}
		}
		return strings.Join(parts, "/")
	})
}

// namesNode says whether word names a node that must not be named. A number is
// taken for a count.
func (s *Scheduler) isHiddenNode(t *schedulingCycle, word string) bool {
	switch {
	case t.generation.Blueprint().Decisions.Nodes, strings.Trim(word, "0123456789") == "":
		return false
	case t.nominatingInfo != nil && word == t.nominatingInfo.NominatedNodeName, t.placement != nil && word == t.placement.Node:
		return true // it may be gone
	}
	_, err := s.options.Informers.Core().V1().Nodes().Lister().Get(word)
	return err == nil
}
