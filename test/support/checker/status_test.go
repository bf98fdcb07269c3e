package checker

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/history"
)

// setBound sets the number of bound pods in each status that has one.
func setBound(n int64) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		if p.Status.Totals != nil {
			p.Status.Totals.Bound = n
		}
	}
}

// wait adds a pod that waits, and that the status counts.
func (s *story) wait(cpu, reason string) *corev1.Pod {
	p := pod("shop/lost-1", cpu).Obj()
	if reason != "" {
		refuse(p, "no node")
		p.Status.Conditions[0].Reason = reason
	}
	s.put(p)
	s.pending++
	return p
}

// again writes the profile's status with a change, and then without it.
func again(change func(*v1alpha1.SchedulingProfile)) func(*story) {
	return func(s *story) {
		p := s.profile.DeepCopy()
		change(p)
		s.put(p)
		s.put(s.profile)
	}
}

// decisionAbout is a decision about a pod that was not bound.
func decisionAbout(pod string, at time.Time) v1alpha1.RecentDecision {
	return v1alpha1.RecentDecision{Namespace: "shop", Pod: pod, Time: metav1.NewTime(at), Result: v1alpha1.ResultUnschedulable, Generation: 2, Hash: "h2"}
}

// statusPlants are wrong texts and numbers.
var statusPlants = []planted{
	{"a pod waits without a condition", "before the status", func(s *story) { s.wait("100", "") }, "I3 Pod shop/lost-1", "has no condition"},
	{"a pod waits that could run", "before the status", func(s *story) { s.wait("100m", corev1.PodReasonUnschedulable) },
		"I3 Pod shop/lost-1", "it waits as unschedulable, and fits on n"},
	{"a pod says that its profile is paused, and it is not", "before the status", func(s *story) { s.wait("100", "ProfilePaused") },
		"I3 Pod shop/lost-1", "the profile is not paused"},
	{"a pod says that its profile does not run, and it does", "before the status", func(s *story) { s.wait("100", "ProfileNotRunning") },
		"I3 Pod shop/lost-1", "the profile runs, or does not exist"},
	{"a pod says that its profile was deleted, and it exists", "before the status", func(s *story) { s.wait("100", "ProfileDeleted") },
		"I3 Pod shop/lost-1", "the profile exists"},
	{"a pod says that it is gated, and it is not", "before the status", func(s *story) { s.wait("100", corev1.PodReasonSchedulingGated) },
		"I3 Pod shop/lost-1", "it has no scheduling gates"},
	{"a pod is not tried again after an error", "before the status", func(s *story) { s.wait("100", "SchedulerError") },
		"I3 Pod shop/lost-1", "such a pod is tried again"},

	{"nothing runs any more", "after the swap", again(func(p *v1alpha1.SchedulingProfile) { p.Status.Programmed = nil }),
		"I6 SchedulingProfile batch", "hash h2 ran, and nothing runs any more"},
	{"a spec that failed its trial runs", "after the swap", again(func(p *v1alpha1.SchedulingProfile) {
		p.Status.Programmed.Hash = "h9"
		p.Status.Conditions[2].Status, p.Status.Conditions[2].Reason = metav1.ConditionFalse, string(v1alpha1.ReasonTrialFailed)
	}), "I6 SchedulingProfile batch", "hash h9 runs instead of h2, although the newest spec does not run"},
	{"a profile is Programmed, and an earlier generation runs", "after the swap", again(func(p *v1alpha1.SchedulingProfile) { p.Status.Programmed.Generation = 1 }),
		"I6 SchedulingProfile batch", "it is Programmed for generation 2, and generation 1 runs"},

	{"a status is about an earlier spec at the end", "end", func(s *story) {
		s.profile.Generation++
		s.put(s.profile)
	}, "I13 SchedulingProfile batch", "its status is about generation 2, its spec is 3"},
	{"a write is sent at the end", "end", func(s *story) {
		s.request("patch", "pods/status", "shop", "big-1").RequestReceivedTimestamp = s.Now.Add(-time.Second)
	}, "I13 patch /shop/pods/status/big-1", "within the last 2s"},
	{"something is written at the end, and there is no audit log", "end", func(s *story) {
		s.Audited = false
		s.now = s.Now.Add(-time.Second)
		s.put(s.versions("SchedulingDecision shop/big-1")[0].Object)
	}, "I13 SchedulingDecision shop/big-1", "it was written within the last 2s"},

	{"a victim has the priority of its preemptor", "end", func(s *story) {
		edit(s, "Pod shop/web-1", func(p *corev1.Pod) { p.Spec.Priority = new(int32(100)) })
	}, "I15 Pod shop/web-1", "it has priority 100 and was preempted"},
	{"the preemptor may not preempt", "end", func(s *story) {
		edit(s, "Pod shop/db-1", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) })
	}, "I15 Pod shop/web-1", "has a higher one and may preempt"},
	{"a pod is preempted for nobody, long after the last leader ended", "before web-3", func(s *story) {
		s.now = s.now.Add(time.Minute)
		p := s.versions("Pod shop/web-2")[1].Object.(*corev1.Pod).DeepCopy()
		victim(p)
		s.put(p)
	}, "I15 Pod shop/web-2", "no pod of batch was nominated for or bound to n2"},

	{"a condition names a pod of another namespace", "end", func(s *story) {
		edit(s, "Pod shop/big-1", func(p *corev1.Pod) {
			if len(p.Status.Conditions) > 0 {
				p.Status.Conditions[0].Message += " It waits for other/secret-7."
			}
		})
	}, "I16 Pod shop/big-1", "it names pod other/secret-7 of another namespace"},
	{"the reason why a profile does not run names a pod of another namespace", "end", func(s *story) {
		edit(s, "Pod shop/big-1", func(p *corev1.Pod) {
			if len(p.Status.Conditions) > 0 {
				p.Status.Conditions[0].Message = "SchedulingProfile batch does not run: generation 1 failed: on trial its plugins failed for 1 of 2 pods: pod other/secret-7: no"
			}
		})
	}, "I16 Pod shop/big-1", "it names pod other/secret-7 of another namespace"},
	{"an explanation names a pod of another namespace", "end", func(s *story) {
		edit(s, "SchedulingDecision shop/big-1", func(d *v1alpha1.SchedulingDecision) { d.Status.Rejections[0].Reason = "secret-7 is there" })
	}, "I16 SchedulingDecision shop/big-1", "it names pod secret-7 of another namespace"},
	{"an Event names a pod of another namespace", "end", func(s *story) {
		edit(s, "Event shop/web-1.1", func(e *corev1.Event) { e.Message = "Preempted by other/secret-7" })
	}, "I16 Event shop/web-1.1", "it names pod other/secret-7"},
	{"an explanation names nodes that the profile does not want named", "end", func(s *story) {
		edit(s, "SchedulingDecision shop/big-1", func(d *v1alpha1.SchedulingDecision) { d.Status.Rejections[0].ExampleNode = "n1" })
	}, "I16 SchedulingDecision shop/big-1", "it names nodes"},
	{"an annotation has nodes that the profile does not want named", "end", decide("Pod shop/web-3", "top", []any{map[string]any{"node": "n1", "score": 3}}),
		"I16 Pod shop/web-3", "its annotation has other nodes"},

	{"a status has too many bytes", "end", func(s *story) { s.versions("SchedulingProfile batch")[4].Size = 70 << 10 },
		"I17 SchedulingProfile batch", "it has 71680 bytes, more than 65536"},
	{"a status is written too often", "end", func(s *story) {
		for range 60 {
			s.put(s.profile)
		}
		s.Now = s.now.Add(5 * time.Second)
	}, "I17 SchedulingProfile batch", "times within 10s"},

	{"a counter goes back", "end", again(func(p *v1alpha1.SchedulingProfile) { p.Status.Totals.Bound = 3 }),
		"I18 SchedulingProfile batch", "status.totals.bound goes back from 6 to 3"},
	{"a status is about an earlier spec than before", "after the swap", again(func(p *v1alpha1.SchedulingProfile) { p.Status.ObservedGeneration = 1 }),
		"I18 SchedulingProfile batch", "status.observedGeneration goes back from 2 to 1"},
	{"a condition is about an earlier spec than before", "after the swap", again(func(p *v1alpha1.SchedulingProfile) { p.Status.Conditions[0].ObservedGeneration = 1 }),
		"I18 SchedulingProfile batch", "observedGeneration of condition Accepted goes back from 2 to 1"},
	{"the epoch in the journal goes back", "end", func(s *story) { s.epoch = 0; s.journal("done") },
		"I18 ConfigMap berth-system/berth-bindings", "its epoch goes back from 1 to 0"},
	{"the transitions of the Lease go back", "end", func(s *story) {
		lease := s.versions("Lease berth-system/berth-manager")[0].Object.(*coordinationv1.Lease)
		s.put(lease)
	}, "I18 Lease berth-system/berth-manager", "its transitions go back from 1 to 0"},

	{"a status counts pods that do not wait", "before the status", func(s *story) { s.pending = 7 },
		"Status SchedulingProfile batch", "counts 7 pending pods, there are 1"},
	{"a status counts more binds than there were", "before the status", func(s *story) { s.bound++ },
		"Status SchedulingProfile batch", "it counts 7 pods bound, there were 6"},
	{"a status counts fewer binds than there were", "before the status", func(s *story) {
		s.bound--
		for _, v := range s.versions("Lease berth-system/berth-manager")[1:] {
			v.Seen = v.Seen.Add(time.Minute) // the first leader does not end shortly after its binds
		}
		s.versions("Lease berth-system/berth-manager")[0].Seen = s.now.Add(time.Minute)
	}, "Status SchedulingProfile batch", "it counts 5 pods bound, there were 6, of which 0"},
	{"a status names a revision that is not stored", "before the status", func(s *story) { s.profile.Status.Programmed.Revision = "batch-h9" },
		"Status SchedulingProfile batch", "it says that revision batch-h9 runs"},
	{"a status has a decision that was not made", "before the status", func(s *story) { s.profile.Status.RecentDecisions[0].Node = "n2" },
		"Status SchedulingProfile batch", "the pod never was on n2"},
	{"a status that existed before the history has a decision about no pod, made since", "before the status", func(s *story) {
		s.versions("SchedulingProfile batch")[0].Listed = true
		s.profile.Status.RecentDecisions = append(s.profile.Status.RecentDecisions, decisionAbout("gone-1", s.now))
	}, "Status SchedulingProfile batch", "there was no such pod"},
	{"a bound pod is still explained as unschedulable", "before the status", func(s *story) {
		s.put(explanation(s.versions("Pod shop/web-3")[1].Object.(*corev1.Pod)))
	}, "Status SchedulingDecision shop/web-3", `it says Unschedulable, and the pod is on node "n1"`},
	{"a pod that is gone is still explained", "before the status", func(s *story) {
		s.put(explanation(s.versions("Pod shop/web-1")[0].Object.(*corev1.Pod)))
	}, "Status SchedulingDecision shop/web-1", "its pod does not exist"},
	{"an explanation belongs to an earlier pod of the name", "end", func(s *story) {
		edit(s, "SchedulingDecision shop/big-1", func(d *v1alpha1.SchedulingDecision) { d.OwnerReferences[0].UID = "earlier" })
	}, "Status SchedulingDecision shop/big-1", "it belongs to an earlier pod"},
	{"an explanation is by a hash that never ran", "end", func(s *story) {
		edit(s, "SchedulingDecision shop/big-1", func(d *v1alpha1.SchedulingDecision) { d.Status.Profile.Hash = "h9" })
	}, "Status SchedulingDecision shop/big-1", "hash h9, which never ran"},
}

// bindMany binds as many pods as are needed to judge the number of writes.
func (s *story) bindMany() {
	s.put(fixture.Node("n3").Capacity("cpu", "4", "memory", "8Gi", "pods", "110").Obj())
	for i := range fewestBinds {
		p := pod(fmt.Sprintf("shop/many-%d", i), "10m").Obj()
		s.put(p)
		s.bind(p, "n3")
	}
}

// writeOften adds so many writes.
func (s *story) writeOften(n int) {
	for range n {
		s.request("update", "controllerrevisions", "berth-system", "batch-h2")
	}
}

// inputPlants are wrong requests and samples, and a history that is not complete.
var inputPlants = []planted{
	{"the heap grows", "end", grow(func(sample *Sample, i int) { sample.Heap += int64(i) * 4 << 20 }), "I8 process a (1)", "bytes of heap"},
	{"goroutines leak", "end", grow(func(sample *Sample, i int) { sample.Goroutines += int64(i) * 10 }), "I9 process a (1)", "goroutines"},
	{"descriptors leak", "end", grow(func(sample *Sample, i int) { sample.Descriptors += int64(i) * 4 }), "I9 process a (1)", "descriptors"},
	{"a request is forbidden", "end", func(s *story) {
		e := s.request("get", "secrets", "shop", "token")
		e.ResponseStatus.Code, e.Annotations = 403, map[string]string{"authorization.k8s.io/decision": "forbid"}
	}, "I10 get /shop/secrets/token", "it is forbidden: get secrets shop/token"},
	{"one pod gets many Bindings", "end", func(s *story) {
		s.Audit = slices.Concat(s.Audit, slices.Repeat([]audit.Entry{*s.request("create", "pods/binding", "shop", "web-3")}, 10))
		for i := range s.Audit {
			s.Audit[i].RequestReceivedTimestamp = s.now
		}
	}, "I17 Pod shop/web-3", "Bindings were sent for it, more than 10"},
	{"the status of a pod is written too often", "end", func(s *story) {
		s.Audit = slices.Concat(s.Audit, slices.Repeat([]audit.Entry{*s.request("patch", "pods/status", "shop", "web-3")}, 30))
		for i := range s.Audit {
			s.Audit[i].RequestReceivedTimestamp = s.now
		}
	}, "I17 Pod shop/web-3", "its status was written more than 30 times"},
	{"there are many writes for each bind", "before the status", func(s *story) {
		s.bindMany()
		s.writeOften(mostWrites * 40)
	}, "I17 requests", "writes for 26 binds and 4 changes of profiles or leaders"},
	{"a process ends by itself", "end", func(s *story) { s.Exits = []string{"a"} }, "I21 process a", "it ended by itself"},
	{"a pod of another scheduler is written", "end", func(s *story) { s.request("patch", "pods/status", "other", "secret-7") },
		"Foreign patch /other/pods/status/secret-7", "is not Berth's concern"},
	{"a pod is deleted that was not preempted", "end", func(s *story) { s.request("delete", "pods", "shop", "web-2") },
		"Foreign delete /shop/pods/web-2", "is not Berth's concern"},
	{"a node is written", "end", func(s *story) { s.request("update", "nodes", "", "n1") }, "Foreign update //nodes/n1", "is not Berth's concern"},
	{"versions are missing", "end", func(s *story) { s.History.Gaps = []history.Gap{{After: 50, At: 90}} },
		"History etcd", "versions after revision 50 are missing"},
}

// grow changes each sample by its number.
func grow(change func(*Sample, int)) func(*story) {
	return func(s *story) {
		for i := range s.Samples["a (1)"] {
			change(&s.Samples["a (1)"][i], i)
		}
	}
}
