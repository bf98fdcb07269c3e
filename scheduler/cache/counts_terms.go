package cache

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// incrementalTerms holds the affinity terms of all pods that have a node, each
// distinct term once, with its weight in each topology domain.
type incrementalTerms struct {
	byKey map[string]*countedTerm
	// list holds the terms in the order in which they were added. Terms are
	// removed only when listVersion changes.
	list        []*countedTerm
	listVersion int
	// unused is the number of terms in list that no pod has any more.
	unused int
	// uncounted is the number of terms of pods whose topology keys exceed the
	// limit of the columns.
	uncounted int
	// absentKeys are the topology keys of terms that no node has as a label.
	// Such a term has no domain, and needs none until a node has the label.
	absentKeys sets.Set[string]
	// interning are the terms of the pod that termsOf is working on.
	interning []*countedTerm
	// labelKeys are the label keys that selectors of terms name. Keys are never
	// removed.
	labelKeys podclass.LabelKeys
	keyBuffer []byte
}

// countedTerm is one distinct term of one kind.
type countedTerm struct {
	// DomainValues are the sums of weights by domain; their listings count pods.
	*counts.DomainValues
	kind framework.TermKind
	term fwk.AffinityTerm
	// pods is the number of pods that have the term, also those on nodes
	// without the topology key.
	pods int
}

// podTerm is one term of one pod.
type podTerm struct {
	*countedTerm
	weight int64
}

// podTerms are all terms of a pod, valid for one listVersion.
type podTerms struct {
	listVersion int
	list        []podTerm
}

// reset removes all terms. Weights of pods are not recounted.
func (k *incrementalTerms) reset() {
	k.byKey, k.list, k.unused = map[string]*countedTerm{}, nil, 0
	k.absentKeys = sets.New[string]()
	k.listVersion++
}

// addNode adds the terms of all pods of a node.
func (k *incrementalTerms) addNode(columns *counts.Columns, slot counts.Slot) {
	for key := range columns.Nodes[slot].Node().Labels {
		if k.absentKeys.Has(key) {
			k.rebuild(columns)
			return
		}
	}
	k.countNode(columns, slot, 1)
}

// rebuild counts the terms of all pods again. It takes time proportional to the
// number of pods that have terms.
func (k *incrementalTerms) rebuild(columns *counts.Columns) {
	for _, t := range k.list {
		t.drop()
	}
	k.reset()
	k.uncounted = 0
	for slot, node := range columns.Nodes {
		if node != nil {
			k.countNode(columns, counts.Slot(slot), 1)
		}
	}
}

// countPod adds the terms of a pod on the node in slot, or subtracts them when by
// is -1.
func (k *incrementalTerms) countPod(columns *counts.Columns, slot counts.Slot, pod *framework.PodInfo, by int64) {
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
		if domain := p.Domains.BySlot()[slot]; domain != counts.NoDomain {
			p.Add(domain, by*p.weight)
			p.AddListings(domain, int32(by))
		}
	}
	if k.unused > 64 && k.unused > len(k.list)/2 {
		k.compact()
	}
}

// countNode adds the terms of all pods of a node, or subtracts them when by is -1.
func (k *incrementalTerms) countNode(columns *counts.Columns, slot counts.Slot, by int64) {
	for _, pod := range columns.Nodes[slot].GetPodsWithAffinity() {
		if info, ok := pod.(*framework.PodInfo); ok {
			k.countPod(columns, slot, info, by)
		}
	}
}

// termsOf returns the terms of a pod. Pods with equal traits share the slice.
func (k *incrementalTerms) termsOf(columns *counts.Columns, pod *framework.PodInfo) []podTerm {
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

// intern returns the one countedTerm for a term, nil when its topology key exceeds
// the limit of the columns. It may compact the list, but keeps the terms in
// interning.
func (k *incrementalTerms) intern(columns *counts.Columns, kind framework.TermKind, term fwk.AffinityTerm) *countedTerm {
	k.keyBuffer = podclass.AppendTerm(append(k.keyBuffer[:0], byte(kind)), &term)
	if found, known := k.byKey[string(k.keyBuffer)]; known {
		return found
	}
	key := string(k.keyBuffer)
	domains := columns.AbsentDomains()
	if columns.HasLabelKey(term.TopologyKey) {
		domains = columns.Domains(term.TopologyKey, false)
	} else {
		k.absentKeys.Insert(term.TopologyKey)
	}
	if domains == nil {
		return nil
	}
	domains.Pin()
	made := &countedTerm{DomainValues: counts.NewDomainValues(domains), kind: kind, term: term}
	k.byKey[key] = made
	k.list = append(k.list, made)
	k.unused++
	k.labelKeys.Add(term.Selector)
	return made
}

// drop marks the term as no longer updated.
func (t *countedTerm) drop() {
	t.Drop()
	t.Domains.Unpin()
}

// compact removes the terms that no pod has any more.
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
		k.keyBuffer = podclass.AppendTerm(append(k.keyBuffer[:0], byte(t.kind)), &t.term)
		k.byKey[string(k.keyBuffer)] = t
		k.list = append(k.list, t)
	}
}

// Terms answers with sums that follow the snapshot. Terms that are added later
// join the sums when the caller updates them.
func (k *incrementalCounts) Terms(q counts.TermQuery) *counts.TermSums {
	if k.terms.uncounted > 0 && k.terms.unused > 0 {
		k.terms.rebuild(k.columns) // unused terms may make way for those beyond the limit
	}
	if k.terms.uncounted > 0 {
		return k.scanCounts.Terms(q)
	}
	era, seen := k.terms.listVersion-1, 0
	sums := &counts.TermSums{}
	sums.Extend = func(t *counts.TermSums) bool {
		if era != k.terms.listVersion {
			era, seen = k.terms.listVersion, 0
			t.ByTopologyKey = map[string]*counts.DomainSums{}
		}
		for ; seen < len(k.terms.list); seen++ {
			term := k.terms.list[seen]
			if factor := q.Factor(term.kind); factor != 0 && term.term.Matches(q.Pod, q.Namespace) {
				t.AddValues(term.term.TopologyKey, term.DomainValues, factor)
			}
		}
		return k.terms.uncounted == 0
	}
	sums.Update()
	return sums
}
