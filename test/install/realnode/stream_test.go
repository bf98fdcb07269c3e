package realnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
)

// profile is the one that Berth's leader creates while there is none.
const profile = "berth"

// pinned says which pods of a stream go to the real node: each one of so many. KWOK's
// nodes are larger and take the others.
const pinned = 20

// tolerant lets a pod go to KWOK nodes, too.
var tolerant = []corev1.Toleration{{Key: node.FakeTaint.Key, Operator: corev1.TolerationOpExists}}

// webPod is a pod as users write them: it serves, with environment, probes and
// resources.
func webPod(namespace, name string) *corev1.Pod {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}},
			PeriodSeconds: 1, TimeoutSeconds: 5,
		}
	}
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
				ReadinessProbe: probe("/ok"),
				LivenessProbe:  probe("/ok"),
			}},
		},
	}
}

// stream creates pods at a steady rate until it is stopped, and notes each failed
// attempt that the cluster tells of.
type stream struct {
	namespace string
	stop      context.CancelFunc
	// creator ends with the last pod created, done with the last watch, too.
	creator, done sync.WaitGroup

	mu       sync.Mutex
	created  int
	failures []string // of the stream itself, and of attempts
}

// startStream begins with a namespace of its own, which goes with the spec.
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
		pod.Spec.Tolerations = tolerant
		if i%pinned == 0 {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
		}
		// A create under way is not cut off: the pod would be there and not counted.
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

// note collects what failure says of each object that a watch delivers, each sentence
// once.
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

// failedEvent returns an Event about a failed attempt as a sentence, else nothing.
func failedEvent(object any) string {
	event, ok := object.(*corev1.Event)
	if !ok || event.Reason != "FailedScheduling" {
		return ""
	}
	return fmt.Sprintf("event: %s: %s", event.InvolvedObject.Name, event.Message)
}

// failedCondition returns a condition that says that an attempt failed, else nothing.
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

// reaches waits until the stream has so many pods.
func (s *stream) reaches(ctx context.Context, pods int) {
	GinkgoHelper()
	Eventually(s.count).WithContext(ctx).Should(BeNumerically(">=", pods))
}

// expectAllRun ends the stream and waits until all of its pods run, with no failed
// attempt on the way.
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
	GinkgoWriter.Printf("%s: %d pods, %d notes of failed attempts\n", s.namespace, s.count(), len(failed))
	changed := slices.DeleteFunc(slices.Clone(failed), func(text string) bool {
		return !strings.Contains(text, "changed in what scheduling reads while it was being bound")
	})
	Expect(changed).To(BeEmpty(), "of %d pods", s.count())
	Expect(failed).To(BeEmpty(), "of %d pods", s.count())
}
