package counts

import (
	"fmt"
	"maps"
	"math"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// facts is everything that DomainSums answer.
type facts struct {
	Numbers map[string]int64
	Domains int
	Least   int64
	Zero    bool
}

func factsOf(t *DomainSums, domains []string) facts {
	f := facts{Numbers: map[string]int64{}, Domains: t.ListedDomains(), Least: t.Min(), Zero: t.AllZero()}
	for _, domain := range domains {
		f.Numbers[domain] = t.Get(domain)
	}
	return f
}

// factsOfMap returns the same answers for a plain map.
func factsOfMap(numbers map[string]int64, domains []string) facts {
	f := facts{Numbers: map[string]int64{}, Domains: len(numbers), Least: math.MaxInt32, Zero: true}
	for _, domain := range domains {
		f.Numbers[domain] = numbers[domain]
	}
	for _, n := range numbers {
		f.Least, f.Zero = min(f.Least, n), f.Zero && n == 0
	}
	return f
}

// DomainSums after additions equal a map of the sums, and clones are
// independent of each other.
func TestDomainSumsEqualAMap(t *testing.T) {
	domains := []string{"", "a", "b", "c", "d", "e"}
	for seed := range int64(500) {
		rng := rand.New(rand.NewSource(seed))
		numbers := map[string]int64{}
		for range rng.Intn(6) {
			numbers[domains[rng.Intn(5)]] = rng.Int63n(4)
		}
		all, references := []*DomainSums{NewDomainSums(maps.Clone(numbers))}, []map[string]int64{numbers}
		for step := range 12 {
			at := rng.Intn(len(all))
			if rng.Intn(4) == 0 {
				all, references = append(all, all[at].Clone()), append(references, maps.Clone(references[at]))
			}
			domain, n := domains[rng.Intn(len(domains))], rng.Int63n(5)-2
			all[at].Add(domain, n)
			references[at][domain] += n
			for i := range all {
				if diff := cmp.Diff(factsOfMap(references[i], domains), factsOf(all[i], domains)); diff != "" {
					t.Fatalf("seed %d, step %d, sums %d (-map +sums):\n%s", seed, step, i, diff)
				}
			}
		}
	}
}

func TestMinIsFoundAfterEveryChange(t *testing.T) {
	numbers := map[string]int64{}
	for i := range 50 {
		numbers[fmt.Sprint("d", i)] = int64(i % 7)
	}
	domainSums := NewDomainSums(maps.Clone(numbers))
	for i := range 50 {
		domain := fmt.Sprint("d", i)
		domainSums.Add(domain, 10)
		numbers[domain] += 10
		if got, want := domainSums.Min(), factsOfMap(numbers, nil).Least; got != want {
			t.Fatalf("after additions to %d domains the minimum is %d, want %d", i+1, got, want)
		}
	}
}
