package cache

import (
	fwk "k8s.io/kube-scheduler/framework"

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
	k.era++
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
	made := &parts{era: k.era}
	for kind, term := range pod.Terms() {
		made.list = append(made.list, part{k.intern(columns, kind, term.AffinityTerm), int64(term.Weight)})
	}
	*pod.Kept() = made
	return made.list
}

// intern returns the one value of a term, nil when its topology is one too
// many.
func (k *keptTerms) intern(columns *framework.Columns, kind framework.TermKind, term fwk.AffinityTerm) *keptTerm {
	k.text = framework.AppendTerm(append(k.text[:0], byte(kind)), &term)
	if found, known := k.known[string(k.text)]; known {
		return found
	}
	domains := columns.Domains(term.TopologyKey, false)
	if domains == nil {
		return nil
	}
	made := &keptTerm{Numbers: framework.NewNumbers(domains), kind: kind, term: term}
	k.known[string(k.text)] = made
	k.list = append(k.list, made)
	k.idle++
	k.labels.Add(term.Selector)
	return made
}

// compact drops the terms that no pod has any more.
func (k *keptTerms) compact() {
	before := k.list
	k.forget()
	for _, t := range before {
		if t.pods == 0 {
			t.Drop()
			continue
		}
		k.text = framework.AppendTerm(append(k.text[:0], byte(t.kind)), &t.term)
		k.known[string(k.text)] = t
		k.list = append(k.list, t)
	}
}

// Terms answers with tallies that move with the snapshot, and take in terms
// that come later when they are updated.
func (k *kept) Terms(q framework.TermQuery) *framework.TermTallies {
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
