package main

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp    *controlplane.ControlPlane
	admin client.Client
	// manager is the path of the manager's binary.
	manager string
)

// twoMinutes is the timeout of a spec.
var twoMinutes = SpecTimeout(2 * time.Minute)

func TestRestarts(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "restarts")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))

// startManager starts a manager until the spec ends. It prints the log of the manager if
// the spec failed.
func startManager(ctx SpecContext, flags ...string) *operator.Manager {
	GinkgoHelper()
	m, err := operator.Start(ctx, cp, manager, flags...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		cp.End(m.Process)
		if log, err := os.ReadFile(m.Log()); err == nil && CurrentSpecReport().Failed() {
			GinkgoWriter.Println(string(log))
		}
	})
	Expect(m.Until(ctx, m.Ready)).To(Succeed())
	return m
}

var _ = Describe("A leader that is replaced again and again under a stream of pods", func() {
	It("loses no pod, and binds each once", func(ctx SpecContext) {
		o, err := parse([]string{"--nodes=20", "--restarts=3", "--rate=20", "--steady=2s"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
			Expect(admin.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
		})
		var out strings.Builder
		Expect(restart(ctx, cp, manager, o, &out)).To(Succeed(), out.String())
		Expect(out.String()).To(SatisfyAll(
			MatchRegexp(`all \d+ pods are there and bound, each once, by 4 leaders`), ContainSubstring("with each of 3 restarts")))
		GinkgoWriter.Println(out.String())
	}, twoMinutes)
})

func TestCheckPods(t *testing.T) {
	const decision = `{"epoch":1,"node":"n1"}`
	pod := func() *fixture.PodBuilder {
		return fixture.Pod(namespace+"/a").On("n1").Annotation("berth.dev/decision", decision)
	}
	for sentence, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"a missing pod":                {nil, "there are 0 pods, not 1"},
		"a pod that is not bound":      {[]corev1.Pod{*pod().On("").Obj()}, "pod a is not bound"},
		"a bind that was not observed": {[]corev1.Pod{*pod().UID("other").Obj()}, `pod a is on n1, and was seen being bound to "n1"`},
		"a pod that moved":             {[]corev1.Pod{*pod().On("n2").Obj()}, `pod a is on n2, and was seen being bound to "n1"`},
		"no decision":                  {[]corev1.Pod{*pod().Annotation("berth.dev/decision", "").Obj()}, "its decision does not say so"},
		"a decision for another node":  {[]corev1.Pod{*pod().Annotation("berth.dev/decision", `{"node":"n2"}`).Obj()}, "its decision does not say so"},
		"a correct pod":                {[]corev1.Pod{*pod().Obj()}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := checkPods(c.pods, 1, map[string]load.Bind{namespace + "/a": {UID: namespace + "/a", Node: "n1"}})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLongestGap(t *testing.T) {
	start := time.Now()
	at := func(seconds ...int) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, start.Add(time.Duration(s)*time.Second))
		}
		return all
	}
	for sentence, c := range map[string]struct {
		at   []time.Time
		want time.Duration
	}{
		"no event":                  {nil, 10 * time.Second},
		"a gap in the middle":       {at(1, 2, 7, 9), 5 * time.Second},
		"a gap at the beginning":    {at(6, 8, 9), 6 * time.Second},
		"a gap at the end":          {at(1, 2, 3), 7 * time.Second},
		"events outside the window": {at(-5, -1, 4, 8, 11, 30), 4 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := longestGap(c.at, [2]time.Time{start, start.Add(10 * time.Second)}); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestParseRejectsInvalidFlags(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"no restarts":           {"--restarts=0", "--restarts: must be more than 0, is 0"},
		"a negative rate":       {"--rate=-1", "--rate: must be more than 0, is -1"},
		"no time":               {"--limit=0s", "--limit: must be more than 0, is 0s"},
		"a positional argument": {"now", `unexpected argument "now": only flags are taken`},
	} {
		t.Run(sentence, func(t *testing.T) {
			if _, err := parse([]string{c.flag}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
