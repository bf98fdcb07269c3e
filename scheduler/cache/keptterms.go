package cache

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// keptTerms are the affinity terms of the pods that have a node, each once
// whoever has it, with what they weigh in each domain.
type incrementalTerms struct {
	byKey map[string]*countedTerm
	// list holds them in the order in which they came; it only grows while era
	// stands still.
	list        []*countedTerm
	listVersion int
	// idle is how many of list no pod has any more.
	unused int
	// unplaced is how many pods have terms of topologies that are too many to
	// be kept.
	uncounted int
	// absent are the topology keys of terms that no node carries. Such a term
	// counts nowhere and needs no domains until a node does.
	absentKeys sets.Set[string]
	// making are the terms of a pod that is about to be counted.
	interning []*countedTerm
	// labels are the keys that selectors of terms name, or ever named.
	labelKeys framework.LabelKeys
	keyBuffer []byte
}

// keptTerm is one term of one kind.
type countedTerm struct {
	// Numbers are sums of weights; what is listed are the pods.
	*framework.DomainValues
	kind framework.TermKind
	term fwk.AffinityTerm
	// pods is how many pods have it, in a domain or not.
	pods int
}

// placed is one pod's part in one term.
type podTerm struct {
	*countedTerm
	weight int64
}

// parts are all parts of a pod, good for one era.
type podTerms struct {
	listVersion int
	list        []podTerm
}

func (k *incrementalTerms) reset() {
	k.byKey, k.list, k.unused = map[string]*countedTerm{}, nil, 0
	k.absentKeys = sets.New[string]()
	k.listVersion++
}

// nodeCame counts the terms of all pods of a node in.
func (k *incrementalTerms) addNode(columns *framework.Columns, slot framework.Slot) {
	for key := range columns.Nodes[slot].Node().Labels {
		if k.absentKeys.Has(key) {
			k.rebuild(columns)
			return
		}
	}
	k.countNode(columns, slot, 1)
}

// rebuild counts the terms of all pods anew. It takes time proportional to the
// pods that have terms.
func (k *incrementalTerms) rebuild(columns *framework.Columns) {
	for _, t := range k.list {
		t.drop()
	}
	k.reset()
	k.uncounted = 0
	for slot, node := range columns.Nodes {
		if node != nil {
			k.countNode(columns, framework.Slot(slot), 1)
		}
	}
}

// pod counts the terms of a pod on the node in slot in, or out when by is -1.
func (k *incrementalTerms) countPod(columns *framework.Columns, slot framework.Slot, pod *framework.PodInfo, by int64) {
	if !pod.HasTerms() {
		return
	}
	for _, p := range k.termsOf(columns, pod) {
		if p.countedTerm == nil {
			k.uncounted += int(by)
			continue
		}
		if p.pods == 0 {
			k.unused--
		}
		if p.pods += int(by); p.pods == 0 {
			k.unused++
		}
		if domain := p.Domains.BySlot()[slot]; domain != framework.NoDomain {
			p.Add(domain, by*p.weight)
			p.AddListings(domain, int32(by))
		}
	}
	if k.unused > 64 && k.unused > len(k.list)/2 {
		k.compact()
	}
}

// node counts the terms of all pods of a node in or out.
func (k *incrementalTerms) countNode(columns *framework.Columns, slot framework.Slot, by int64) {
	for _, pod := range columns.Nodes[slot].GetPodsWithAffinity() {
		if info, ours := pod.(*framework.PodInfo); ours {
			k.countPod(columns, slot, info, by)
		}
	}
}

// of returns the parts of a pod. Pods that are alike share them.
func (k *incrementalTerms) termsOf(columns *framework.Columns, pod *framework.PodInfo) []podTerm {
	if shared, ok := (*pod.CountsCache()).(*podTerms); ok && shared.listVersion == k.listVersion {
		return shared.list
	}
	made := &podTerms{}
	k.interning = k.interning[:0]
	for kind, term := range pod.Terms() {
		t := k.intern(columns, kind, term.AffinityTerm)
		made.list = append(made.list, podTerm{t, int64(term.Weight)})
		k.interning = append(k.interning, t)
	}
	k.interning = k.interning[:0]
	made.listVersion = k.listVersion
	*pod.CountsCache() = made
	return made.list
}

// intern returns the one value of a term, nil when its topology is one too
// many. It may compact the terms, but none of those that are being made.
func (k *incrementalTerms) intern(columns *framework.Columns, kind framework.TermKind, term fwk.AffinityTerm) *countedTerm {
	k.keyBuffer = framework.AppendTerm(append(k.keyBuffer[:0], byte(kind)), &term)
	if found, known := k.byKey[string(k.keyBuffer)]; known {
		return found
	}
	key := string(k.keyBuffer)
	domains := columns.AbsentDomains()
	if columns.HasLabelKey(term.TopologyKey) || fault.AbsentTopologiesTakePlaces {
		domains = columns.Domains(term.TopologyKey, false)
	} else {
		k.absentKeys.Insert(term.TopologyKey)
	}
	if domains == nil {
		return nil
	}
	domains.Pin()
	made := &countedTerm{DomainValues: framework.NewDomainValues(domains), kind: kind, term: term}
	k.byKey[key] = made
	k.list = append(k.list, made)
	k.unused++
	k.labelKeys.Add(term.Selector)
	return made
}

// drop says that the term is no longer kept.
func (t *countedTerm) drop() {
	t.Drop()
	t.Domains.Unpin()
}

// compact drops the terms that no pod has any more.
func (k *incrementalTerms) compact() {
	if k.unused == 0 {
		return
	}
	before, absent := k.list, k.absentKeys
	k.reset()
	for _, t := range before {
		if t.pods == 0 {
			if !slices.Contains(k.interning, t) {
				t.drop()
				continue
			}
			k.unused++
		}
		if absent.Has(t.term.TopologyKey) {
			k.absentKeys.Insert(t.term.TopologyKey)
		}
		k.keyBuffer = framework.AppendTerm(append(k.keyBuffer[:0], byte(t.kind)), &t.term)
		k.byKey[string(k.keyBuffer)] = t
		k.list = append(k.list, t)
	}
}

// Terms answers with tallies that move with the snapshot, and take in terms
// that come later when they are updated.
func (k *incrementalCounts) Terms(q framework.TermQuery) *framework.TermSums {
	if k.terms.uncounted > 0 && k.terms.unused > 0 {
		k.terms.rebuild(k.columns) // there may be a place now
	}
	if k.terms.uncounted > 0 {
		return k.scanCounts.Terms(q)
	}
	era, seen := k.terms.listVersion-1, 0
	tallies := &framework.TermSums{}
	tallies.Extend = func(t *framework.TermSums) bool {
		if era != k.terms.listVersion {
			era, seen = k.terms.listVersion, 0
			t.ByTopologyKey = map[string]*framework.DomainSums{}
		}
		for ; seen < len(k.terms.list); seen++ {
			term := k.terms.list[seen]
			if factor := q.Factor(term.kind); factor != 0 && term.term.Matches(q.Pod, q.Namespace) {
				t.AddValues(term.term.TopologyKey, term.DomainValues, factor)
			}
		}
		return k.terms.uncounted == 0
	}
	tallies.Update()
	return tallies
}
