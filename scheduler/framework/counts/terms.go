package counts

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// TermQuery asks for the affinity terms of assigned pods that match Pod. Each
// kind of term has a factor; 0 leaves the kind out.
type TermQuery struct {
	Pod *v1.Pod
	// Namespace is the labels of Pod's namespace.
	Namespace map[string]string
	// RequiredAffinity and RequiredAntiAffinity are the weight of one term.
	RequiredAffinity, RequiredAntiAffinity int64
	// PreferredAffinity and PreferredAntiAffinity multiply the term's own
	// weight.
	PreferredAffinity, PreferredAntiAffinity int64
}

// Factor is the factor for one kind of term.
func (q *TermQuery) Factor(kind framework.TermKind) int64 {
	switch kind {
	case framework.RequiredAffinity:
		return q.RequiredAffinity
	case framework.RequiredAntiAffinity:
		return q.RequiredAntiAffinity
	case framework.PreferredAffinity:
		return q.PreferredAffinity
	default:
		return q.PreferredAntiAffinity
	}
}

// MatchingTerms yields topology key and weight of each term of placed that
// matches the query's pod.
func (q *TermQuery) MatchingTerms(placed fwk.PodInfo) iter.Seq2[string, int64] {
	terms := framework.AffinityTerms{
		RequiredAffinity: placed.GetRequiredAffinityTerms(), RequiredAntiAffinity: placed.GetRequiredAntiAffinityTerms(),
		PreferredAffinity: placed.GetPreferredAffinityTerms(), PreferredAntiAffinity: placed.GetPreferredAntiAffinityTerms(),
	}
	return func(yield func(string, int64) bool) {
		for kind, term := range terms.Terms() {
			factor := q.Factor(kind)
			if factor != 0 && term.Matches(q.Pod, q.Namespace) && !yield(term.TopologyKey, factor*int64(term.Weight)) {
				return
			}
		}
	}
}

// TermSums are sums of the weights of affinity terms by topology key and
// domain.
type TermSums struct {
	ByTopologyKey map[string]*DomainSums
	// Extend adds the terms that the snapshot got since the sums were made, and
	// returns false if it cannot; may be nil.
	Extend func(*TermSums) bool
}

// Update updates the sums to the snapshot. It returns false if the query has to
// be repeated.
func (t *TermSums) Update() bool { return t.Extend != nil && t.Extend(t) }

// HasListed reports whether any domain is listed.
func (t *TermSums) HasListed() bool {
	for _, sums := range t.ByTopologyKey {
		if sums.HasListed() {
			return true
		}
	}
	return false
}

// Clone returns independent sums with the same numbers, which Update does not
// update.
func (t *TermSums) Clone() *TermSums { return t.CloneBy((*DomainSums).Clone) }

// CloneBy is Clone with another function to clone the sums of a topology key.
func (t *TermSums) CloneBy(clone func(*DomainSums) *DomainSums) *TermSums {
	all := &TermSums{ByTopologyKey: make(map[string]*DomainSums, len(t.ByTopologyKey))}
	for key, sums := range t.ByTopologyKey {
		all.ByTopologyKey[key] = clone(sums)
	}
	return all
}

// Add adds n to a domain of the topology key.
func (t *TermSums) Add(key, domain string, n int64) { t.sumsFor(key).Add(domain, n) }

// AddValues adds factor times numbers to the sums of a topology key.
func (t *TermSums) AddValues(key string, values *DomainValues, factor int64) {
	t.sumsFor(key).AddValues(values, factor)
}

func (t *TermSums) sumsFor(key string) *DomainSums {
	sums, ok := t.ByTopologyKey[key]
	if !ok {
		sums = &DomainSums{}
		t.ByTopologyKey[key] = sums
	}
	return sums
}
