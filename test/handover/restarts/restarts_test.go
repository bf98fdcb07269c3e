package main

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
)

var _ = Describe("A leader that is replaced again and again under a stream of pods", func() {
	It("loses none, and binds each once", func(ctx SpecContext) {
		o, err := parse([]string{"--nodes=20", "--restarts=3", "--rate=20", "--still=2s"})
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

func TestAPodThatIsNotAsItMustBeIsAFault(t *testing.T) {
	const ours = `{"epoch":1,"node":"n1"}`
	pod := func() *fixture.PodBuilder {
		return fixture.Pod(namespace+"/a").On("n1").Annotation("berth.dev/decision", ours)
	}
	for sentence, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"a pod that is not there":     {nil, "there are 0 pods, not 1"},
		"a pod that is not bound":     {[]corev1.Pod{*pod().On("").Obj()}, "pod a is not bound"},
		"a bind that nobody saw":      {[]corev1.Pod{*pod().UID("other").Obj()}, `pod a is on n1, and was seen being bound to "n1"`},
		"a pod that moved":            {[]corev1.Pod{*pod().On("n2").Obj()}, `pod a is on n2, and was seen being bound to "n1"`},
		"a decision of nobody":        {[]corev1.Pod{*pod().Annotation("berth.dev/decision", "").Obj()}, "its decision does not say so"},
		"a decision for elsewhere":    {[]corev1.Pod{*pod().Annotation("berth.dev/decision", `{"node":"n2"}`).Obj()}, "its decision does not say so"},
		"a pod as it must be is none": {[]corev1.Pod{*pod().Obj()}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := judge(c.pods, 1, map[string]load.Bind{namespace + "/a": {UID: namespace + "/a", Node: "n1"}})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTheLongestGapIsMeasuredFromEndToEnd(t *testing.T) {
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
		"nothing at all":        {nil, 10 * time.Second},
		"a gap in the middle":   {at(1, 2, 7, 9), 5 * time.Second},
		"a gap at the begin":    {at(6, 8, 9), 6 * time.Second},
		"a gap at the end":      {at(1, 2, 3), 7 * time.Second},
		"what is outside is so": {at(-5, -1, 4, 8, 11, 30), 4 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := gap(c.at, [2]time.Time{start, start.Add(10 * time.Second)}); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"no restarts":                 {"--restarts=0", "--restarts: must be more than 0, is 0"},
		"a rate that is none":         {"--rate=-1", "--rate: must be more than 0, is -1"},
		"no time":                     {"--limit=0s", "--limit: must be more than 0, is 0s"},
		"an argument without a place": {"now", `unexpected argument "now": only flags are taken`},
	} {
		t.Run(sentence, func(t *testing.T) {
			if _, err := parse([]string{c.flag}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
