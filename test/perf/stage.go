package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// stage is a control plane of its own for one run of one side.
type stage struct {
	options  options
	binaries binaries
	plugins  pluginSet
	cp       *controlplane.ControlPlane
	client   kubernetes.Interface // the harness's own
	// kubeconfig is the file that the side is started with.
	kubeconfig string
	manager    *operator.Manager // nil for other sides than Berth
}

// set starts the control plane, with what the shape has beside the pods to be
// scheduled. The caller stops it.
func (b *bench) set(ctx context.Context, sh shape) (*stage, error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return nil, err
	}
	s := &stage{options: sh.settled(b.options), binaries: b.binaries, plugins: b.plugins, cp: cp}
	if s.client, err = load.Client(cp.Config()); err == nil {
		err = s.fill(ctx, sh)
	}
	if err != nil {
		cp.Stop()
		return nil, err
	}
	return s, nil
}

func (s *stage) fill(ctx context.Context, sh shape) error {
	nodes := controlplane.NodeOptions{Zones: sh.zoned(s.options), CPU: nodeCPU, Memory: nodeMemory, Pods: nodePods}
	if err := s.cp.Nodes(ctx, s.options.nodes, nodes); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, object := range sh.extras() {
		if err := s.create(ctx, object); err != nil {
			return err
		}
	}
	return load.Each(ctx, s.options.existing, s.options.workers, func(ctx context.Context, i int) error {
		return s.add(ctx, sh.runs(i, s.options.nodes))
	})
}

func (s *stage) create(ctx context.Context, object runtime.Object) (err error) {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		_, err = s.client.AppsV1().ReplicaSets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Service:
		o.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		_, err = s.client.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("shapes may not have a %T", object)
	}
	return err
}

func (s *stage) add(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// account makes a ServiceAccount with the rights of cluster roles, and returns
// a kubeconfig with its token: what is measured is authorized as in a cluster.
func (s *stage) account(ctx context.Context, namespace, name string, roles ...string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_, err := s.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench:" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		}
		if _, err := s.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	return s.cp.ServiceAccountKubeconfig(ctx, namespace, name)
}
