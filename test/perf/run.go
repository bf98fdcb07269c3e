package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

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
	"github.com/berthdev/berth/test/support/procs"
)

// run is one run of one side.
type run struct {
	Shape string `json:"shape"`
	Load  string `json:"load"`
	Side  string `json:"side"`
	Round int    `json:"round"`
	Pods  int    `json:"pods"`
	// StartUp is the time from the start of the process to the bind of one pending pod, in
	// seconds. The process was started once before.
	StartUp float64 `json:"startUpSeconds"`
	// StartUpCPU is the CPU time of the side until then, in milliseconds.
	StartUpCPU float64 `json:"startUpCPUMillis"`
	// Took is the time in which all pods were bound, in seconds: with drain, from the start of
	// the process to the last bind, less StartUp; else from the first creation to the last
	// bind.
	Took          float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// BindsPerSecond is the rate between the first and the last bind.
	BindsPerSecond float64 `json:"bindsPerSecond"`
	// CPU is in milliseconds per pod, by process; with drain, less that of the run for
	// StartUp.
	CPU map[string]float64 `json:"cpuMillisPerPod"`
	// Peak is the maximal resident memory, in MiB, by process.
	Peak         map[string]float64 `json:"peakMiB"`
	EventsPerPod float64            `json:"eventsPerPod"`
	// Counted is per pod; with drain, less the run for StartUp.
	Counted counters `json:"perPod"`
	// ToLastEvent is Took, to the last Event instead of the last bind; Events are counted four
	// times a second.
	ToLastEvent float64 `json:"secondsToLastEvent"`
	// Latency is the time from when a pod's creation was due to its observed bind, in
	// milliseconds; with open only.
	Latency *quantiles `json:"latencyMillis,omitempty"`
	// Heap is the live heap of the side in MiB, with start; 0 where it shows none.
	Heap float64 `json:"liveHeapMiB,omitempty"`
	// NodeChanges are the nodes that were changed in a second.
	NodeChanges float64 `json:"nodeChangesPerSecond,omitempty"`
	// Late is the delay of the creations, in milliseconds: where it is not small the load
	// itself is too slow.
	Late *quantiles `json:"lateMillis,omitempty"`
	// Parts are what each part of Berth costs, with --profiles.
	Parts []partCost `json:"parts,omitempty"`

	profiles *profiles
}

// scheduler is the name of the measured process among the others; harness is this process: the
// load, and the watch that measures.
const scheduler, harness = "scheduler", "harness"

// runner runs one side once.
type runner struct {
	*testEnv
	shape shape
	side  side
	load  string
	round int
	pods  int
	// schedulerName is that of the pods; boundBefore is the number of pods that were bound
	// before.
	schedulerName string
	boundBefore   int

	bound       *load.Bound
	process     *controlplane.Process // the side's, while it runs
	events      int                   // number of Events before the load
	counted     int                   // number of Events when they were counted last
	idle        counters              // after the start-up with one pod
	lastEventAt time.Time             // when their number was last seen to grow
}

// measure runs one side once, on a control plane of its own.
func (b *bench) measure(ctx context.Context, sh shape, sd side, how string, round int) (run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	s, err := b.newTestEnv(ctx, sh, controlplane.Options{EtcdData: b.etcdData})
	if err != nil {
		return run{}, err
	}
	s.showsHeap = how == start
	defer s.cp.Stop()
	if err := sd.install(ctx, s); err != nil {
		return run{}, fmt.Errorf("installing %s: %w", sd.name, err)
	}
	t := &runner{testEnv: s, shape: sh, side: sd, load: how, round: round, pods: sh.pods(b.options, how), schedulerName: profile, boundBefore: startUpRuns}
	if t.bound, err = load.WatchBound(ctx, s.client, profile); err != nil {
		return run{}, err
	}
	defer t.bound.Stop()
	r, err := t.run(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", sd.name, err)
	}
	return r, nil
}

// run starts the side with one pod to bind, twice, and then measures. What only a first start
// does, such as the trial of a profile, is done by then.
func (t *runner) run(ctx context.Context) (run, error) {
	r := t.newRun()
	empty, err := t.startUps(ctx, &r)
	if err != nil {
		return r, err
	}
	if t.load == start {
		return r, t.finishStart(ctx, &r)
	}
	if t.events, err = t.countEvents(ctx); err != nil {
		return r, err
	}
	if t.shape.gangs != nil {
		if err := t.createPodGroups(ctx); err != nil {
			return r, err
		}
	}
	if t.load == "burst+unfit" {
		if err := t.createUnfit(ctx); err != nil {
			return r, fmt.Errorf("the pods that fit no node: %w", err)
		}
	}
	if t.load == "drain" {
		return r, t.drain(ctx, &r, empty)
	}
	return r, t.flow(ctx, &r)
}

// startUps runs the side startUpRuns times with one pod, sets what the last one took, and
// returns what all processes used in it. The side runs on.
func (t *runner) startUps(ctx context.Context, r *run) (empty procs.Usage, err error) {
	for range startUpRuns {
		t.end()
		startUp, used, err := t.measureStartUp(ctx)
		if err != nil {
			return nil, fmt.Errorf("a run with one pod: %w", err)
		}
		r.StartUp, r.StartUpCPU, empty = startUp.Seconds(), millis(used[scheduler]), used
	}
	return empty, nil
}

// newRun returns a run without measurements.
func (t *runner) newRun() run {
	return run{Shape: t.shape.name, Load: t.load, Side: t.side.name, Round: t.round, Pods: t.pods}
}

// createNext creates the i-th pod that the side is to bind, with the claim that it needs.
func (t *runner) createNext(ctx context.Context, i int) error {
	pod := t.pod(i)
	if t.shape.devices != nil {
		if claim := t.shape.devices.prepare(pod); claim != nil {
			if _, err := t.client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, withoutServerFields(claim), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return t.createPod(ctx, pod)
}

// pod is the i-th pod that the side is to bind.
func (t *runner) pod(i int) *corev1.Pod {
	pod := t.shape.pendingPod(i)
	pod.Spec.SchedulerName = t.schedulerName
	return pod
}

// start starts the side and returns the time of the start.
func (t *runner) start(ctx context.Context) (began time.Time, err error) {
	began = time.Now()
	t.process, err = t.side.start(ctx, t.testEnv)
	return began, err
}

// end ends the side, where it runs.
func (t *runner) end() {
	if t.process != nil {
		t.cp.End(t.process)
		t.process = nil
	}
}

// procs are the processes of the run.
func (t *runner) procs() procs.Procs {
	p := procs.Procs{harness: os.Getpid()}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		p[name] = t.cp.Process(name).PID()
	}
	if t.process != nil {
		p[scheduler] = t.process.PID()
	}
	return p
}

// untilBound waits until n pods are bound, and then until the side is idle. It returns what
// all processes had used by then.
func (t *runner) untilBound(ctx context.Context, n int) (procs.Usage, error) {
	if err := t.bound.Until(ctx, n, t.cp.Running); err != nil {
		return nil, err
	}
	used, err := t.procs().Settle(ctx, scheduler, t.countEvents)
	if err != nil {
		return nil, errors.Join(t.cp.Running(), err)
	}
	return used, nil
}

// finish sets the fields that all loads have; between is the time from the first bind to the
// last.
func (t *runner) finish(ctx context.Context, r *run, used procs.Usage, between time.Duration) error {
	r.CPU, r.Peak = map[string]float64{}, map[string]float64{}
	for name, cpu := range used {
		r.CPU[name] = millis(cpu) / float64(t.pods)
	}
	if r.profiles != nil {
		r.Parts = r.profiles.partCosts(t.pods, r.CPU[scheduler])
	}
	for name, pid := range t.procs() {
		mib, err := procs.Peak(pid)
		if err != nil {
			return err
		}
		r.Peak[name] = mib
	}
	if r.Took > 0 {
		r.PodsPerSecond = float64(t.pods) / r.Took
	}
	if between > 0 {
		r.BindsPerSecond = float64(t.pods-1) / between.Seconds()
	}
	now, err := t.count(ctx)
	if err != nil {
		return err
	}
	r.Counted = now.perPod(t.idle, t.pods)
	events, err := t.countEvents(ctx)
	r.EventsPerPod = float64(events-t.events) / float64(t.pods)
	return err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// testEnv is a control plane for one run of one side.
type testEnv struct {
	options  options
	binaries binaries
	plugins  pluginSet
	cp       *controlplane.ControlPlane
	client   kubernetes.Interface // the harness's own
	// kubeconfig is the file that the side is started with.
	kubeconfig string
	manager    *operator.Manager // nil for other sides than Berth
	// showsHeap says that the side is to serve profiles of its heap, and heapURL where it
	// does; empty where it does not.
	showsHeap bool
	heapURL   string
}

// newTestEnv starts the control plane, with the objects of the shape but for the pods to be
// scheduled; the data of etcd has them already, where there is one. The caller stops it.
func (b *bench) newTestEnv(ctx context.Context, sh shape, o controlplane.Options) (*testEnv, error) {
	o.APIServerArgs = sh.gangs.apiServerArgs()
	cp, err := controlplane.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &testEnv{options: sh.withOverrides(b.options), binaries: b.binaries, plugins: b.pluginsFor(sh), cp: cp}
	if s.client, err = load.Client(cp.Config()); err == nil && o.EtcdData == "" {
		err = s.createObjects(ctx, sh)
	}
	if err != nil {
		cp.Stop()
		return nil, err
	}
	return s, nil
}

func (s *testEnv) createObjects(ctx context.Context, sh shape) error {
	nodes := controlplane.NodeOptions{Zones: sh.zoneCount(s.options), CPU: nodeCPU, Memory: nodeMemory, Pods: nodePods}
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
	if sh.devices != nil {
		if err := s.createDevices(ctx, sh.devices); err != nil {
			return err
		}
	}
	return s.each(ctx, s.options.existing, func(ctx context.Context, i int) error {
		return s.createPod(ctx, sh.existingPod(i, s.options.nodes))
	})
}

// each calls do for the numbers below n, by all workers.
func (s *testEnv) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	return load.Each(ctx, n, s.options.workers, do)
}

func (s *testEnv) create(ctx context.Context, object runtime.Object) (err error) {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		_, err = s.client.AppsV1().ReplicaSets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Service:
		o.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		_, err = s.client.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("a shape must not have a %T", object)
	}
	return err
}

func (s *testEnv) createPod(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// account creates a ServiceAccount with these cluster roles, and returns a kubeconfig with its
// token: the sides are authorized as in a cluster.
func (s *testEnv) account(ctx context.Context, namespace, name string, roles ...string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_, err := s.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench:" + name + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		}
		_, err := s.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	return s.cp.ServiceAccountKubeconfig(ctx, namespace, name)
}
