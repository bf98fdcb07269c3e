package groups

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/history"
	"github.com/berthdev/berth/test/support/operator"
)

// write is the nth of the writes of a kind for a gang.
type write struct {
	faultproxy.Kind
	nth int32
}

var (
	binding        = faultproxy.Kind{Method: http.MethodPost, Resource: "pods", Subresource: "binding"}
	groupCondition = faultproxy.Kind{Method: http.MethodPatch, Resource: "podgroups", Subresource: "status"}
	podCondition   = faultproxy.Kind{Method: http.MethodPatch, Resource: "pods", Subresource: "status"}
	eviction       = faultproxy.Kind{Method: http.MethodDelete, Resource: "pods"}
)

// killAt kills the manager before or after the write in the namespace, once.
func (env testEnv) killAt(is write, after bool) {
	var seen atomic.Int32
	proxy.SetAllFaults(func(w faultproxy.Write) *faultproxy.Fault {
		if !is.Is(w, env.namespace) || seen.Add(1) != is.nth {
			return nil
		}
		return faultproxy.CutAround(after, berth.Load().Kill)
	})
	DeferCleanup(func() { proxy.SetAllFaults(nil) })
}

// restartKilled waits for the end of the manager, and starts the next.
func restartKilled(ctx SpecContext) {
	GinkgoHelper()
	Eventually(berth.Load().Ended()).Should(BeClosed())
	startBerth(ctx)
}

// restartIfKilled starts the next manager if the last one was killed. It does not wait until that
// is ready, since it may be killed before.
func restartIfKilled() {
	GinkgoHelper()
	select {
	case <-berth.Load().Ended():
		launchBerth()
	default:
	}
}

// moment is the moment of a kill: before or after a write.
type moment struct {
	write
	after bool
}

// gangMoments are the moments at which the manager is killed while gangs are bound. The
// condition of a PodGroup is written for gangs that name one.
var gangMoments = []struct {
	source string
	moment
}{
	{"Berth's annotations", moment{write{binding, 1}, false}},
	{"the label of the coscheduling plugin", moment{write{binding, 1}, true}},
	{"the label of Kueue", moment{write{binding, 8}, false}},
	{"spec.schedulingGroup", moment{write{binding, 8}, true}},
	{"spec.schedulingGroup", moment{write{groupCondition, 1}, false}},
	{"spec.schedulingGroup", moment{write{groupCondition, 1}, true}},
}

var _ = Describe("Gangs of eight pods, of which twelve fit, while the manager is killed and the profile changes", func() {
	It("run one after the other, each bound whole", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 6, 8)
		checked, err := checker.Start(ctx, cp, checker.Options{FromNow: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(checked.Stop)
		faults := env.interfere(ctx)
		waiting := map[string][]*v1.Pod{}
		for i, at := range gangMoments {
			gang := fmt.Sprint("gang", i)
			waiting[gang] = env.gang(ctx, sources[at.source], gang)
		}

		for len(waiting) > 0 {
			var whole string
			Eventually(func(g Gomega) {
				restartIfKilled()
				whole = env.whole(ctx, waiting)(g)
				g.Expect(whole).NotTo(BeEmpty(), "a gang of which each pod has a node")
			}).WithTimeout(2 * eventuallyTimeout).Should(Succeed()) // each of three kills takes a Lease
			for _, pod := range waiting[whole] {
				admin.Remove(ctx, pod)
			}
			delete(waiting, whole)
		}

		Eventually(faults.kills.Load).Should(BeEquivalentTo(len(gangMoments)), "kills")
		restartIfKilled() // the last gang may have been whole before its kill
		Expect(faults.changes.Load()).To(BeEquivalentTo(len(gangMoments)), "changes of the profile")
		report, err := checked.End(ctx)
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("checker", report.String(), ReportEntryVisibilityFailureOrVerbose)
		Expect(report.Violations).To(BeEmpty())
		Expect(report.Binds).To(Equal(8 * len(gangMoments)))
		recorded, err := checked.Recorder().History()
		Expect(err).NotTo(HaveOccurred())
		env.expectWhole(recorded.Changes)
	})
})

// whole returns a gang of which each pod has a node and whose PodGroup, if it has one, is
// Scheduled.
func (env testEnv) whole(ctx context.Context, gangs map[string][]*v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		for gang, pods := range gangs {
			if boundOf(ctx, pods)(g) < len(pods) {
				continue
			}
			if pods[0].Spec.SchedulingGroup != nil {
				var group schedulingv1beta1.PodGroup
				g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: gang}, &group)).To(Succeed())
				if !meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
					continue
				}
			}
			return gang
		}
		return ""
	}
}

// expectWhole expects that no leader binds a pod while another gang that it began is bound in
// part, and that each binds the pods of a gang by one spec. A gang of which a killed leader bound
// four pods or fewer leaves enough for another one.
func (env testEnv) expectWhole(changes []history.Change) {
	GinkgoHelper()
	bound, hashes := map[string]sets.Set[types.UID]{}, map[string]string{}
	for _, change := range changes {
		pod, is := change.Object.(*v1.Pod)
		if !is || pod.Namespace != env.namespace || pod.Spec.NodeName == "" {
			continue
		}
		gang, _, _ := strings.Cut(pod.Name, "-")
		if bound[gang] == nil {
			bound[gang] = sets.New[types.UID]()
		}
		if bound[gang].Has(pod.UID) {
			continue
		}
		bound[gang].Insert(pod.UID)
		var decision struct {
			Hash  string `json:"hash"`
			Epoch int64  `json:"epoch"`
		}
		Expect(json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &decision)).To(Succeed())
		Expect(decision.Hash).NotTo(BeEmpty())
		for other, pods := range bound {
			if _, began := hashes[fmt.Sprint(other, " by leader ", decision.Epoch)]; began && other != gang {
				Expect(pods).To(HaveLen(8), "the pods of %s that have a node when leader %d gives %s one", other, decision.Epoch, pod.Name)
			}
		}
		key := fmt.Sprint(gang, " by leader ", decision.Epoch)
		Expect(decision.Hash).To(Equal(cmp.Or(hashes[key], decision.Hash)), key)
		hashes[key] = decision.Hash
	}
}

// interference counts the kills and the changes of the profile.
type interference struct{ kills, changes atomic.Int32 }

// interfere kills the manager at the moment of each gang, once, and changes the profile at a
// Binding of each gang. That Binding waits until the manager runs the new spec.
func (env testEnv) interfere(ctx context.Context) *interference {
	GinkgoHelper()
	done := &interference{}
	random := rand.New(rand.NewSource(GinkgoRandomSeed()))
	byGang := map[string]func(faultproxy.Write) *faultproxy.Fault{}
	for i, at := range gangMoments {
		changed := write{binding, 1 + random.Int31n(8)}
		if changed == at.write {
			changed.nth = changed.nth%8 + 1
		}
		var seen, bindings atomic.Int32
		byGang[fmt.Sprint("gang", i)] = func(w faultproxy.Write) *faultproxy.Fault {
			isChange := changed.Is(w, env.namespace) && bindings.Add(1) == changed.nth
			switch {
			case at.Is(w, env.namespace) && seen.Add(1) == at.nth:
				return faultproxy.CutAround(at.after, func() { berth.Load().Kill(); done.kills.Add(1) })
			case isChange:
				return &faultproxy.Fault{Commits: true, Hold: changeProfile(ctx, done.changes.Add(1))}
			}
			return nil
		}
	}
	proxy.SetAllFaults(func(w faultproxy.Write) *faultproxy.Fault {
		for gang, fault := range byGang {
			if strings.Contains(w.Path, "/"+gang+"-") || strings.Contains(w.Path, "/"+gang+"/") {
				return fault(w)
			}
		}
		return nil
	})
	DeferCleanup(func(ctx SpecContext) {
		proxy.SetAllFaults(nil)
		Expect(operator.ApplyProfile(ctx, cp, profileName, gangProfile())).To(Succeed())
	}, NodeTimeout(eventuallyTimeout))
	return done
}

// changeProfile changes the profile for the nth time, and returns a channel that is closed when
// the manager runs the new spec, or was killed.
func changeProfile(ctx context.Context, nth int32) <-chan struct{} {
	manager, runs := berth.Load(), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(runs)
		spec := gangProfile()
		spec.PercentageOfNodesToScore = 50 + nth
		Expect(operator.ApplyProfile(ctx, cp, profileName, spec)).To(Succeed())
		Eventually(func(g Gomega) {
			select {
			case <-manager.Ended():
				return
			default:
			}
			profile, err := operator.Profile(ctx, cp, profileName)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(operator.IsProgrammed(profile)).To(BeTrue(), "%+v", profile.Status.Conditions)
		}).Should(Succeed())
	}()
	return runs
}

var _ = Describe("A manager that is killed while a gang preempts: the next one evicts what the whole gang needs, killed", func() {
	for name, at := range map[string]moment{
		"before the condition of a victim": {write{podCondition, 1}, false},
		"after the condition of a victim":  {write{podCondition, 1}, true},
		"after the first eviction":         {write{eviction, 1}, true},
		"before the last eviction":         {write{eviction, 3}, false},
		"after the last eviction":          {write{eviction, 3}, true},
	} {
		It(name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 2, 4)
			important := env.priorityClass(ctx)
			low := env.boundLow(ctx)
			env.killAt(at.write, at.after)
			group := env.importantGroup(ctx, "important", 3, important, nil)
			pods := env.importantMembers(ctx, "important", 3, important)
			restartKilled(ctx)

			Eventually(func(g Gomega) {
				for _, name := range env.evicted(ctx, low)(g) {
					admin.Remove(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}})
				}
				for _, pod := range pods {
					g.Expect(admin.NodeName(ctx, pod)(g)).NotTo(BeEmpty())
				}
			}).Should(Succeed())
			expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
		})
	}
})
