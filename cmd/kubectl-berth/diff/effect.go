package diff

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// effect is what a profile does, as lines under titles. Two profiles with equal effects make
// the same decisions.
type effect map[string][]string

// Titles that are neither an extension point nor the arguments of a plugin.
const (
	extendersTitle = "extenders"
	settingsTitle  = "settings"
	stateTitle     = "state, activation and exports"
)

// effectOf returns the effect of a Blueprint.
func effectOf(b *compile.Blueprint) (effect, error) {
	e := effect{settingsTitle: settingsLines(b), extendersTitle: extenderLines(b)}
	for point, chain := range b.Chains {
		for _, entry := range chain {
			e[string(point)] = append(e[string(point)], formatEntry(entry.Name, entry.Weight))
		}
	}
	for name, args := range b.Args {
		text, err := yaml.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", name, err)
		}
		e[argumentsTitle(name)] = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return e, nil
}

// effectOfStatus returns the effect that a status shows: which plugins run at which
// extension point, without order.
func effectOfStatus(p *v1alpha1.ProgrammedProfile) effect {
	e := effect{}
	for _, programmed := range p.Plugins {
		for _, point := range programmed.Points {
			title := strings.ToLower(string(point[:1])) + string(point[1:])
			weight := programmed.Weight
			if framework.Point(title) != framework.Score {
				weight = 0
			}
			e[title] = append(e[title], formatEntry(programmed.Name, weight))
		}
	}
	return e.unordered()
}

// unordered returns the part of an effect that a status shows as well.
func (e effect) unordered() effect {
	points := effect{}
	for _, point := range framework.AllPoints {
		if lines := slices.Clone(e[string(point)]); lines != nil {
			slices.Sort(lines)
			points[string(point)] = lines
		}
	}
	return points
}

func formatEntry(name string, weight int32) string {
	if weight == 0 {
		return name
	}
	return fmt.Sprintf("%s, weight %d", name, weight)
}

func argumentsTitle(plugin string) string { return "arguments of " + plugin }

func settingsLines(b *compile.Blueprint) []string {
	namespaces, flush, detail := "all", "never", v1alpha1.DetailReasons
	if b.Namespaces != nil {
		namespaces = b.Namespaces.String()
	}
	if b.Queue.FlushAfter > 0 {
		flush = b.Queue.FlushAfter.String()
	}
	if b.Decisions.Nodes {
		detail = v1alpha1.DetailNodes
	}
	return []string{
		fmt.Sprintf("percentageOfNodesToScore: %d", b.PercentageOfNodesToScore),
		"allowedNamespaces: " + namespaces,
		fmt.Sprintf("queue.initialBackoff: %v", b.Queue.InitialBackoff),
		fmt.Sprintf("queue.maxBackoff: %v", b.Queue.MaxBackoff),
		"queue.flushAfter: " + flush,
		fmt.Sprintf("decisions.annotate: %t", b.Decisions.Annotate),
		fmt.Sprintf("decisions.topScores: %d", b.Decisions.TopScores),
		"decisions.explain: " + string(b.Decisions.Explain),
		"decisions.detail: " + string(detail),
		fmt.Sprintf("decisions.history: %d", b.Decisions.History),
		fmt.Sprintf("decisions.publish: %v", b.Decisions.Publish),
	}
}

// extenderLines returns the extenders in the order in which they are called. A certificate is a
// hash, since nobody compares PEM by eye.
func extenderLines(b *compile.Blueprint) (lines []string) {
	for _, e := range b.Extenders {
		lines = append(lines, "- name: "+e.Name)
		policy := v1alpha1.FailurePolicyFail
		if e.Ignorable {
			policy = v1alpha1.FailurePolicyIgnore
		}
		for _, field := range []struct{ name, value string }{
			{"url", e.URL},
			{"verbs.filter", e.Filter}, {"verbs.prioritize", e.Prioritize}, {"verbs.preempt", e.Preempt}, {"verbs.bind", e.Bind},
			{"weight", fmt.Sprint(e.Weight)},
			{"timeout", e.Timeout.String()},
			{"tls.caBundle", fmt.Sprintf("%d bytes, sha256 %.8x", len(e.CABundle), sha256.Sum256(e.CABundle))},
			{"tls.serverName", e.ServerName},
			{"tls.clientCertificateRef.name", e.ClientCertificate},
			{"nodeCacheCapable", fmt.Sprint(e.NodeCacheCapable)},
			{"managedResources", strings.Join(e.Managed, ", ")},
			{"failurePolicy", string(policy)},
		} {
			if field.value != "" {
				lines = append(lines, "  "+field.name+": "+field.value)
			}
		}
	}
	return lines
}

// sortedTitles returns the titles of two effects in the order in which they are printed:
// extension points in the order in which a pod passes them, arguments by plugin, then the
// rest.
func sortedTitles(a, b effect) []string {
	var points, arguments []string
	for _, point := range framework.AllPoints {
		points = append(points, string(point))
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for title := range all {
		if strings.HasPrefix(title, argumentsTitle("")) {
			arguments = append(arguments, title)
		}
	}
	slices.Sort(arguments)
	return slices.Concat(points, arguments, []string{extendersTitle, settingsTitle, stateTitle})
}
