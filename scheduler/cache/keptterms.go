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
type keptTerms struct {
	known map[string]*keptTerm
	// list holds them in the order in which they came; it only grows while era
	// stands still.
	list []*keptTerm
	era  int
	// idle is how many of list no pod has any more.
	idle int
	// unplaced is how many pods have terms of topologies that are too many to
	// be kept.
	unplaced int
	// absent are the topology keys of terms that no node carries. Such a term
	// counts nowhere and needs no domains until a node does.
	absent sets.Set[string]
	// making are the terms of a pod that is about to be counted.
	making []*keptTerm
	// labels are the keys that selectors of terms name, or ever named.
	labels framework.LabelKeys
	text   []byte
}

// keptTerm is one term of one kind.
type keptTerm struct {
	// Numbers are sums of weights; what is listed are the pods.
	*framework.Numbers
	kind framework.TermKind
	term fwk.AffinityTerm
	// pods is how many pods have it, in a domain or not.
	pods int
}

// placed is one pod's part in one term.
type part struct {
	*keptTerm
	weight int64
}

// parts are all parts of a pod, good for one era.
type parts struct {
	era  int
	list []part
}

func (k *keptTerms) forget() {
	k.known, k.list, k.idle = map[string]*keptTerm{}, nil, 0
	k.absent = sets.New[string]()
	k.era++
}

// nodeCame counts the terms of all pods of a node in.
func (k *keptTerms) nodeCame(columns *framework.Columns, slot framework.Slot) {
	for key := range columns.Nodes[slot].Node().Labels {
		if k.absent.Has(key) {
			k.rebuild(columns)
			return
		}
	}
	k.node(columns, slot, 1)
}

// rebuild counts the terms of all pods anew. It takes time proportional to the
// pods that have terms.
func (k *keptTerms) rebuild(columns *framework.Columns) {
	for _, t := range k.list {
		t.drop()
	}
	k.forget()
	k.unplaced = 0
	for slot, node := range columns.Nodes {
		if node != nil {
			k.node(columns, framework.Slot(slot), 1)
		}
	}
}

// pod counts the terms of a pod on the node in slot in, or out when by is -1.
func (k *keptTerms) pod(columns *framework.Columns, slot framework.Slot, pod *framework.PodInfo, by int64) {
	if !pod.HasTerms() {
		return
	}
	for _, p := range k.of(columns, pod) {
		if p.keptTerm == nil {
			k.unplaced += int(by)
			continue
		}
		if p.pods == 0 {
			k.idle--
		}
		if p.pods += int(by); p.pods == 0 {
			k.idle++
		}
		if domain := p.Domains.Of()[slot]; domain != framework.NoDomain {
			p.Shift(domain, by*p.weight)
			p.List(domain, int32(by))
		}
	}
	if k.idle > 64 && k.idle > len(k.list)/2 {
		k.compact()
	}
}

// node counts the terms of all pods of a node in or out.
func (k *keptTerms) node(columns *framework.Columns, slot framework.Slot, by int64) {
	for _, pod := range columns.Nodes[slot].GetPodsWithAffinity() {
		if info, ours := pod.(*framework.PodInfo); ours {
			k.pod(columns, slot, info, by)
		}
	}
}

// of returns the parts of a pod. Pods that are alike share them.
func (k *keptTerms) of(columns *framework.Columns, pod *framework.PodInfo) []part {
	if shared, ok := (*pod.Kept()).(*parts); ok && shared.era == k.era {
		return shared.list
	}
	made := &parts{}
	k.making = k.making[:0]
	for kind, term := range pod.Terms() {
		t := k.intern(columns, kind, term.AffinityTerm)
		made.list = append(made.list, part{t, int64(term.Weight)})
		k.making = append(k.making, t)
	}
	k.making = k.making[:0]
	made.era = k.era
	*pod.Kept() = made
	return made.list
}

// intern returns the one value of a term, nil when its topology is one too
// many. It may compact the terms, but none of those that are being made.
func (k *keptTerms) intern(columns *framework.Columns, kind framework.TermKind, term fwk.AffinityTerm) *keptTerm {
	k.text = framework.AppendTerm(append(k.text[:0], byte(kind)), &term)
	if found, known := k.known[string(k.text)]; known {
		return found
	}
	key := string(k.text)
	domains := columns.NoDomains()
	if columns.Carried(term.TopologyKey) || fault.AbsentTopologiesTakePlaces {
		domains = columns.Domains(term.TopologyKey, false)
	} else {
		k.absent.Insert(term.TopologyKey)
	}
	if domains == nil {
		return nil
	}
	domains.Pin()
	made := &keptTerm{Numbers: framework.NewNumbers(domains), kind: kind, term: term}
	k.known[key] = made
	k.list = append(k.list, made)
	k.idle++
	k.labels.Add(term.Selector)
	return made
}

// drop says that the term is no longer kept.
func (t *keptTerm) drop() {
	t.Drop()
	t.Domains.Unpin()
}

// compact drops the terms that no pod has any more.
func (k *keptTerms) compact() {
	if k.idle == 0 {
		return
	}
	before, absent := k.list, k.absent
	k.forget()
	for _, t := range before {
		if t.pods == 0 {
			if !slices.Contains(k.making, t) {
				t.drop()
				continue
			}
			k.idle++
		}
		if absent.Has(t.term.TopologyKey) {
			k.absent.Insert(t.term.TopologyKey)
		}
		k.text = framework.AppendTerm(append(k.text[:0], byte(t.kind)), &t.term)
		k.known[string(k.text)] = t
		k.list = append(k.list, t)
	}
}

// Terms answers with tallies that move with the snapshot, and take in terms
// that come later when they are updated.
func (k *kept) Terms(q framework.TermQuery) *framework.TermTallies {
	if k.terms.unplaced > 0 && k.terms.idle > 0 {
		k.terms.rebuild(k.columns) // there may be a place now
	}
	if k.terms.unplaced > 0 {
		return k.scan.Terms(q)
	}
	era, seen := k.terms.era-1, 0
	tallies := &framework.TermTallies{}
	tallies.More = func(t *framework.TermTallies) bool {
		if era != k.terms.era {
			era, seen = k.terms.era, 0
			t.By = map[string]*framework.Tally{}
		}
		for ; seen < len(k.terms.list); seen++ {
			term := k.terms.list[seen]
			if factor := q.Factor(term.kind); factor != 0 && term.term.Matches(q.Pod, q.Namespace) {
				t.Count(term.term.TopologyKey, term.Numbers, factor)
			}
		}
		return k.terms.unplaced == 0
	}
	tallies.Update()
	return tallies
}
