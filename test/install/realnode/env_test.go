package realnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

// lease is the name of the Lease, and deployment that of the managers.
const lease, deployment = "berth-manager", "berth-manager"

// expectReady waits until so many replicas of the manager are ready, no pod of an earlier
// one is left, one of them leads, and its profile is Ready.
func expectReady(ctx context.Context, replicas int32) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var d appsv1.Deployment
		g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: deployment}, &d)).To(Succeed())
		g.Expect(d.Status.ReadyReplicas).To(Equal(replicas))
		g.Expect(managers(ctx, g)).To(HaveLen(int(*d.Spec.Replicas)))
		leads := leader(ctx, g, operator.Namespace)
		g.Expect(leads.Status.ContainerStatuses).To(HaveEach(HaveField("Ready", true)))
	}).WithContext(ctx).Should(Succeed())
	// The leader creates the first profile a moment after it acquired the Lease, and
	// kubectl wait fails at once while there is none.
	Eventually(func() error {
		_, err := cluster.Kubectl(ctx, nil, "wait", "--for=condition=Ready", "sprof", "--all", "--timeout=60s")
		return err
	}).WithContext(ctx).Should(Succeed())
}

// managers returns the pods of the manager.
func managers(ctx context.Context, g Gomega) []corev1.Pod {
	var list corev1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(operator.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "berth"})).To(Succeed())
	return list.Items
}

// leader returns the pod that holds the Lease.
func leader(ctx context.Context, g Gomega, namespace string) corev1.Pod {
	var l coordinationv1.Lease
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: lease}, &l)).To(Succeed())
	g.Expect(l.Spec.HolderIdentity).NotTo(BeNil(), "the Lease has no holder")
	name, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	var pod corev1.Pod
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod)).To(Succeed())
	return pod
}

// process returns the process ID of the manager in its pod.
func process(pod corev1.Pod) int {
	GinkgoHelper()
	Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
	pid, err := node.ProcessOf(pod.Status.ContainerStatuses[0].ContainerID, "manager")
	Expect(err).NotTo(HaveOccurred())
	return pid
}

func signalProcess(pid int, s syscall.Signal) {
	GinkgoHelper()
	Expect(syscall.Kill(pid, s)).To(Succeed())
}

// restarted reads a pod and returns how its container terminated last; nil if it was not
// restarted since.
func restarted(ctx context.Context, pod corev1.Pod) func(Gomega) *corev1.ContainerStateTerminated {
	return func(g Gomega) *corev1.ContainerStateTerminated {
		var now corev1.Pod
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(&pod), &now)).To(Succeed())
		g.Expect(now.Status.ContainerStatuses).To(HaveLen(1))
		if now.Status.ContainerStatuses[0].RestartCount == pod.Status.ContainerStatuses[0].RestartCount {
			return nil
		}
		return now.Status.ContainerStatuses[0].LastTerminationState.Terminated
	}
}

// managerLogs returns the logs of the managers' containers by their path.
func managerLogs() map[string]string {
	logs := map[string]string{}
	for _, pattern := range []string{"*/manager/*.log", "kube-system_berth-*/manager/*.log"} {
		files, _ := filepath.Glob(filepath.Join(cluster.PodLogs(), pattern)) // the pattern is valid
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				text = []byte(err.Error())
			}
			logs[strings.TrimPrefix(file, cluster.PodLogs())] = string(text)
		}
	}
	return logs
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// profile is the profile that Berth's leader creates while there is none.
const profile = "berth"

// pinnedEvery: each of so many pods of a stream is pinned to the real node. KWOK's nodes
// are larger and get the others.
const pinnedEvery = 20

// tolerateFake lets a pod fit on KWOK nodes, too.
var tolerateFake = []corev1.Toleration{{Key: node.FakeTaint.Key, Operator: corev1.TolerationOpExists}}

// webPod returns a pod as users write them, with environment, probes and resources.
func webPod(namespace, name string) *corev1.Pod {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}},
			PeriodSeconds: 1, TimeoutSeconds: 5,
		}
	}
	started := probe("/ok") // a machine that is busy starts a container with 1m of CPU late
	started.FailureThreshold = 60
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			SchedulerName:                 profile,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "web", Image: imagesOnNode().Workload, Command: []string{"/workload"}, Args: []string{"serve"},
				Env: []corev1.EnvVar{
					{Name: "GREETING", Value: "hello"},
					{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				},
				Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("1Mi")}},
				StartupProbe:   started,
				ReadinessProbe: probe("/ok"),
				LivenessProbe:  probe("/ok"),
			}},
		},
	}
}

// withoutProbes has webPod's container run the workload with other arguments: it does not
// listen then, so that it has no probes.
func withoutProbes(container *corev1.Container, args ...string) {
	container.Args = args
	container.StartupProbe, container.ReadinessProbe, container.LivenessProbe = nil, nil, nil
}

// stream creates pods at a rate until it is stopped, and records each failed attempt.
type stream struct {
	namespace string
	stop      context.CancelFunc
	// creator ends with the last pod created, done with the last watch, too.
	creator, done sync.WaitGroup

	mu       sync.Mutex
	created  int
	failures []string // of the stream, and of attempts
}

// startStream creates a namespace and starts a stream in it, until the spec ends.
func startStream(ctx context.Context, name string, every time.Duration) *stream {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	// Pods are admitted once the namespace has its account.
	Eventually(func() error {
		_, err := cluster.Client().CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).WithContext(ctx).Should(Succeed())
	running, cancel := context.WithCancel(context.Background())
	watching, unwatch := context.WithCancel(context.Background())
	s := &stream{namespace: name, stop: cancel}
	events, err := cluster.Client().CoreV1().Events(name).Watch(watching, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	pods, err := cluster.Client().CoreV1().Pods(name).Watch(watching, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.done.Go(func() { s.note(events, failedEvent) })
	s.done.Go(func() { s.note(pods, failedCondition) })
	s.creator.Go(func() { s.create(running, cluster.Client(), every) })
	DeferCleanup(func(ctx SpecContext) {
		cancel()
		unwatch()
		events.Stop()
		pods.Stop()
		s.creator.Wait()
		s.done.Wait()
		Expect(cluster.Client().CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})).To(Succeed())
	})
	return s
}

func (s *stream) create(ctx context.Context, c kubernetes.Interface, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := 0; ; i++ {
		pod := webPod(s.namespace, fmt.Sprintf("web-%d", i))
		pod.Spec.Tolerations = tolerateFake
		if i%pinnedEvery == 0 {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
		}
		// Not interrupted by ctx: the pod would exist and not be counted.
		_, err := c.CoreV1().Pods(s.namespace).Create(context.WithoutCancel(ctx), pod, metav1.CreateOptions{})
		s.mu.Lock()
		if err == nil {
			s.created++
		} else {
			s.failures = append(s.failures, "create: "+err.Error())
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// note adds what failure returns for each object of a watch, each text once.
func (s *stream) note(w watch.Interface, failure func(any) string) {
	for event := range w.ResultChan() {
		text := failure(event.Object)
		if text == "" {
			continue
		}
		s.mu.Lock()
		if !slices.Contains(s.failures, text) {
			s.failures = append(s.failures, text)
		}
		s.mu.Unlock()
	}
}

// failedEvent describes an Event about a failed attempt; "" for other objects.
func failedEvent(object any) string {
	event, ok := object.(*corev1.Event)
	if !ok || event.Reason != "FailedScheduling" {
		return ""
	}
	return fmt.Sprintf("event: %s: %s", event.InvolvedObject.Name, event.Message)
}

// failedCondition describes a condition of a failed attempt; "" for other objects.
func failedCondition(object any) string {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("condition: %s: %s: %s", pod.Name, c.Reason, c.Message)
		}
	}
	return ""
}

func (s *stream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.created
}

func (s *stream) failed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failures)
}

// expectCreated waits until the stream has created so many pods.
func (s *stream) expectCreated(ctx context.Context, pods int) {
	GinkgoHelper()
	Eventually(s.count).WithContext(ctx).Should(BeNumerically(">=", pods))
}

// expectAllRun ends the stream and expects all of its pods to run without a failed attempt.
func (s *stream) expectAllRun(ctx context.Context) {
	GinkgoHelper()
	s.stop()
	s.creator.Wait()
	Eventually(func(g Gomega) {
		var list corev1.PodList
		g.Expect(admin.List(ctx, &list, client.InNamespace(s.namespace))).To(Succeed())
		var rest []string
		for _, pod := range list.Items {
			if pod.Status.Phase != corev1.PodRunning {
				rest = append(rest, pod.Name+" on "+pod.Spec.NodeName+" is "+string(pod.Status.Phase))
			}
		}
		g.Expect(rest).To(BeEmpty())
		g.Expect(len(list.Items)).To(Equal(s.count()))
	}).WithContext(ctx).Should(Succeed())
	failed := s.failed()
	GinkgoWriter.Printf("%s: %d pods, %d failed attempts\n", s.namespace, s.count(), len(failed))
	changed := slices.DeleteFunc(slices.Clone(failed), func(text string) bool {
		return !strings.Contains(text, "changed in what scheduling reads while it was being bound")
	})
	Expect(changed).To(BeEmpty(), "of %d pods", s.count())
	Expect(failed).To(BeEmpty(), "of %d pods", s.count())
}
