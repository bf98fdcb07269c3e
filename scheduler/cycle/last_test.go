package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// service makes a Service that selects by one label.
func (s *testEnv) service(name, key, value string) {
	s.Helper()
	if err := s.informers.Core().V1().Services().Informer().GetIndexer().Add(fixture.Service(name, key, value)); err != nil {
		s.Fatal(err)
	}
	s.cache.MarkChanged(framework.PodOwners)
}

// replicaSet makes a ReplicaSet that selects by one label.
func (s *testEnv) replicaSet(name, key, value string) {
	s.Helper()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       appsv1.ReplicaSetSpec{Selector: fixture.LabelSelector(key, value)},
	}
	if err := s.informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set); err != nil {
		s.Fatal(err)
	}
	s.cache.MarkChanged(framework.PodOwners)
}

// A pod that is tried twice in a row may be told apart from others the second time
// by labels that nothing selected the first time.
func TestThePodOfTheLastAttemptIsClassifiedAgain(t *testing.T) {
	for sentence, change := range map[string]func(s *testEnv){
		"a pod is placed that keeps others away by a label that nothing selected": func(s *testEnv) {
			for i := range 20 {
				s.cache.SetPod(fixture.Pod(fmt.Sprint("guard", i)).RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "db")).On(fmt.Sprint("n", i)).Obj())
			}
		},
		"a pod is placed that rather has others away by such a label": func(s *testEnv) {
			s.cache.SetPod(fixture.Pod("guard").PreferPodAntiAffinity(100, fixture.PodAffinityTerm("zone", "app", "db")).On("n6").Obj())
		},
		"a Service selects by such a label": func(s *testEnv) {
			s.cache.SetPod(fixture.Pod("other").Label("app", "db").On("n6").Obj())
			s.service("db", "app", "db")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newTestEnv(t, 1<<20, 1, "InterPodAffinity", "PodTopologySpread")
			web := fixture.Pod("web").Label("app", "web").Requests("cpu", "500m").Obj()
			db := fixture.Pod("db").Label("app", "db").Requests("cpu", "500m").Obj()
			s.run(0, web)
			s.run(0, db)
			change(s)
			s.run(0, db)
			s.run(0, web)
			s.run(0, db)
		})
	}
}

// What is remembered of the same few pods is what is said plainly, whatever labels
// the cluster begins to select by.
func TestRepeatedPodsAreDecidedAsByTheReference(t *testing.T) {
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(seed, 1))
		s := newTestEnv(t, 1<<20, 2, "InterPodAffinity", "PodTopologySpread")
		key, value := func() string { return fmt.Sprint("l", dice.IntN(12)) }, func() string { return fmt.Sprint(dice.IntN(2)) }
		var pods []*v1.Pod
		for i := range 6 {
			b := fixture.Pod(fmt.Sprint("p", i)).Requests("cpu", "500m")
			for range 6 {
				b.Label(key(), value())
			}
			pods = append(pods, b.Obj())
		}
		pod := pods[0]
		for step := range 60 {
			on := fmt.Sprint("n", dice.IntN(20))
			switch name := fmt.Sprint("x", dice.IntN(30)); dice.IntN(9) {
			case 0:
				s.cache.SetPod(fixture.Pod(name).RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, key(), value())).On(on).Obj())
			case 1:
				s.cache.SetPod(fixture.Pod(name).PreferPodAntiAffinity(50, fixture.PodAffinityTerm("zone", key(), value())).On(on).Obj())
			case 2:
				s.cache.SetPod(fixture.Pod(name).Label(key(), value()).Requests("cpu", "100m").On(on).Obj())
			case 3:
				s.service(fmt.Sprint("s", step), key(), value())
			case 4:
				s.replicaSet(fmt.Sprint("r", step), key(), value())
			case 5:
				s.cache.RemovePodByUID(fixture.Pod(name).Obj().UID)
			}
			if dice.IntN(3) == 0 {
				pod = pods[dice.IntN(len(pods))]
			}
			s.run(dice.IntN(2), pod)
		}
	}
}
