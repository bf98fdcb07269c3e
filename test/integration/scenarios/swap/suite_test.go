// Package swap runs cells of the swap matrix, test/support/swapmatrix, on a real
// kube-apiserver: a pod is brought to a place, its profile changes, and other pods of the
// profile are created all the time. README.md says which cells run and how each assertion
// is checked.
package swap

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/informers"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

const (
	// eventuallyTimeout is the timeout of Eventually: two backoffs, and Events that yield to
	// binds for half a minute, on a machine that is loaded.
	eventuallyTimeout = 2 * time.Minute
	// pollingInterval is how often Eventually polls.
	pollingInterval = 20 * time.Millisecond
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// berth is the manager, whose Bindings go through the proxy bindings.
	berth      *operator.InProcess
	bindings   *faultproxy.Proxy
	podHistory = &podRecorder{}
	loopStops  = &loopStopper{}
)

func TestSwap(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "swap")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)

	var err error
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, fixture.Node("n1").Obj())).To(Succeed())
	watch := informers.NewSharedInformerFactory(cp.Client(), 0)
	podHistory.register(watch)
	ended := make(chan struct{})
	DeferCleanup(func() { close(ended); watch.Shutdown() })
	watch.Start(ended)

	cfg, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	bindings, err = faultproxy.Start(cfg)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(bindings.Stop)
	bindings.SetFaults(delayBinding)
	berth, err = operator.Run(cfg, nil, manager.WithWriteConfig(bindings.Config(cfg)), manager.WithPlugins(testPlugins()...),
		manager.WithLogger(logr.New(&stoppingSink{LogSink: ctrl.Log.GetSink(), stops: loopStops})))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(berth.Stop()).To(Succeed()) })
	Eventually(berth.Elected()).Should(BeClosed())
}, NodeTimeout(15*time.Minute))

const (
	// everyCellEnv is the environment variable that runs all cells instead of every third.
	everyCellEnv = "BERTH_SWAP_EVERY"
	// parallelCells is how many cells run at a time. A cell waits most of the time.
	parallelCells = 12
)

var (
	places  = slices.Sorted(maps.Keys(swapmatrix.Places))
	changes = slices.Sorted(maps.Keys(swapmatrix.Changes))
)

// isSelected reports whether the cell of the nth place and the mth change runs: each place
// meets every third change, and the next place begins with the next one.
func isSelected(n, m int) bool { return (n+m)%3 == 0 }

// selectCells returns the cells that run, in order.
func selectCells() (all []*cell) {
	for n, place := range places {
		for m, change := range changes {
			if isSelected(n, m) || os.Getenv(everyCellEnv) != "" {
				all = append(all, newCell(fmt.Sprintf("cell-%d-%d", n, m), place, change))
			}
		}
	}
	return all
}

var cells = append(selectCells(), gangCells()...)

func (c *cell) sentence() string { return "that is " + c.placeName + ", when " + c.changeName }

// container is the name of the container of the cell's spec.
func (c *cell) container() string {
	if c.inGang {
		return "A pod of a gang beside a stream of others"
	}
	return "A pod beside a stream of others"
}

// itEnds is the spec of a cell.
func (c *cell) itEnds(how string) {
	It(c.sentence()+", "+how, SpecTimeout(10*time.Minute), func(ctx SpecContext) {
		runAll()
		c.await(ctx)
		for _, fault := range c.failures {
			GinkgoWriter.Println(fault)
		}
		Expect(c.failures).To(BeEmpty(), c.name)
	})
}

var _ = Describe("A pod beside a stream of others", func() {
	for _, c := range cells {
		if !c.inGang {
			c.itEnds("is bound once, by the right generation")
		}
	}

	It("leaves nothing behind, and swaps happened between binds", SpecTimeout(10*time.Minute), func(ctx SpecContext) {
		runAll()
		mixed := 0
		for _, c := range cells {
			if !c.isFocused() {
				continue
			}
			c.await(ctx)
			if len(c.streamHashes) > 1 {
				mixed++
			}
		}
		expectEmptyScheduler()
		Expect(mixed).To(BeNumerically(">=", len(cells)/4), "cells whose stream was decided by several generations")
	})
})

// await waits until the cell has run. The cell has timeouts of its own.
func (c *cell) await(ctx context.Context) {
	GinkgoHelper()
	select {
	case <-c.done:
	case <-ctx.Done():
		Fail(c.name + " does not end")
	}
}

// runAll runs the cells, many at a time: each has its own profile and namespace. The first
// spec does not wait for the others.
var runAll = sync.OnceFunc(func() {
	turn := make(chan struct{}, parallelCells)
	go func() {
		for _, c := range cells {
			if !c.isFocused() {
				continue
			}
			turn <- struct{}{}
			go func() {
				defer func() { <-turn }()
				c.run()
			}()
		}
	}()
})

// isFocused reports whether a spec asks for the result of the cell.
func (c *cell) isFocused() bool {
	suite, _ := GinkgoConfiguration()
	return len(suite.FocusStrings) == 0 || slices.ContainsFunc(suite.FocusStrings, func(pattern string) bool {
		return regexp.MustCompile(pattern).MatchString("swap " + c.container() + " " + c.sentence())
	})
}

// matrixTable returns the table of the cells in README.md.
func matrixTable() string {
	var text strings.Builder
	text.WriteString("| |")
	for n := range places {
		fmt.Fprintf(&text, " %d |", n+1)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(places)) + "\n")
	for m, change := range changes {
		fmt.Fprintf(&text, "| %s |", change)
		for n := range places {
			mark := " "
			if isSelected(n, m) {
				mark = "●"
			}
			fmt.Fprintf(&text, " %s |", mark)
		}
		text.WriteString("\n")
	}
	return text.String()
}

var _ = Describe("README.md", func() {
	It("has the table of the cells", func() {
		text, err := os.ReadFile("README.md")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Contains(string(text), matrixTable())).To(BeTrue(), "the table is:\n"+matrixTable())
		for n, place := range places {
			Expect(string(text)).To(ContainSubstring("%d. %s\n", n+1, place))
		}
	})
})
