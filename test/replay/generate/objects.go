package generate

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// objects returns the first objects beside nodes, pods and storage: namespaces, and what owns
// and selects pods.
func (g *Generator) objects() []log.Op {
	var ops []log.Op
	for _, namespace := range namespaces {
		if g.chance(90) {
			ops = append(ops, log.Op{Kind: log.Apply, Object: g.namespace(namespace)})
		}
		for _, app := range apps {
			for _, made := range []func(namespace, app string) log.Object{g.service, g.replicaSet, g.statefulSet, g.replicationController} {
				if g.chance(40) {
					ops = append(ops, log.Op{Kind: log.Apply, Object: made(namespace, app)})
				}
			}
		}
	}
	return ops
}

// changeObject changes or deletes one of these objects.
func (g *Generator) changeObject() (log.Op, bool) {
	return g.changeObjectOf(pick(g.random, namespaces), pick(g.random, apps)), true
}

// changeObjectOf is changeObject for a namespace and the objects of one app in it.
func (g *Generator) changeObjectOf(namespace, app string) log.Op {
	object := pick(g.random, []func() log.Object{
		func() log.Object { return g.namespace(namespace) },
		func() log.Object { return g.service(namespace, app) },
		func() log.Object { return g.replicaSet(namespace, app) },
		func() log.Object { return g.statefulSet(namespace, app) },
		func() log.Object { return g.replicationController(namespace, app) },
	})()
	if g.chance(25) {
		return log.Op{Kind: log.Delete, Object: object}
	}
	return log.Op{Kind: log.Apply, Object: object}
}

func (g *Generator) namespace(name string) log.Object {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": pick(g.random, teams)}}}
}

func (g *Generator) service(namespace, app string) log.Object {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app}}
	if g.chance(90) {
		service.Spec.Selector = map[string]string{"app": app}
	}
	if g.chance(20) {
		service.Spec.Selector = map[string]string{"app": app, "tier": pick(g.random, tiers)}
	}
	return service
}

func (g *Generator) replicaSet(namespace, app string) log.Object {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app}, Spec: appsv1.ReplicaSetSpec{Selector: g.selector()}}
}

func (g *Generator) statefulSet(namespace, app string) log.Object {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app}, Spec: appsv1.StatefulSetSpec{Selector: g.selector()}}
}

func (g *Generator) replicationController(namespace, app string) log.Object {
	controller := &v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec:       v1.ReplicationControllerSpec{Selector: map[string]string{"app": app}},
	}
	if g.chance(30) {
		controller.Spec.Selector["tier"] = pick(g.random, tiers)
	}
	return controller
}
