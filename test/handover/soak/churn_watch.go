package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/component-helpers/resource"

	"github.com/berthdev/berth/scheduler/binding"
)

// observed is what the watch of the pods has delivered. It keeps only pods that exist: a run has more
// pods than would fit into memory.
type observed struct {
	pods map[types.UID]*corev1.Pod // the newest version
	used map[string]usage          // by node
	// boundPods are the names of the bound pods, in the order of their binds, and binds is the number
	// of binds so far.
	boundPods []string
	binds     int
	// pending is when each pod that fits and has no node was created. unfit are the pods that fit
	// nowhere and have not been refused, refused those that have, in this order.
	pending map[string]time.Time
	unfit   map[string]bool
	refused []string
	// doubtful are deleted pods whose generation was not known: a change of the profile is
	// noticed later than its first bind.
	doubtful   []*corev1.Pod
	violations errorList
	// changed is closed and replaced at each change.
	changed chan struct{}
}

// usage is what the pods of a node use.
type usage struct{ pods, milliCPU int64 }

func newObserved() observed {
	return observed{
		pods: map[types.UID]*corev1.Pod{}, used: map[string]usage{}, pending: map[string]time.Time{}, unfit: map[string]bool{},
		changed: make(chan struct{}),
	}
}

// watch observes the pods of the namespace from now on, until ctx ends. The returned channel is
// closed when it has ended.
func (c *churn) watch(ctx context.Context) (done <-chan struct{}, err error) {
	pods := c.client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: pods.Watch})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				c.observe(pod, event.Type == watch.Deleted)
			} else if event.Type == watch.Error {
				c.violation(fmt.Errorf("watching pods: %w", apierrors.FromObject(event.Object)))
			}
		}
		if ctx.Err() == nil {
			c.violation(errors.New("the watch of pods ended"))
		}
	}()
	return ended, nil
}

func (c *churn) violation(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, err)
}

// observe checks a version of a pod, and notes what became of it.
func (c *churn) observe(pod *corev1.Pod, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.pods[pod.UID]
	pod.ManagedFields = nil
	if before == nil && !deleted {
		c.result.Created++
		if pod.Labels[unfitLabel] == "" {
			c.pending[pod.Name] = time.Now()
		} else {
			c.unfit[pod.Name] = true
		}
	}
	was := ""
	if before != nil {
		was = before.Spec.NodeName
	}
	switch node := pod.Spec.NodeName; {
	case was != "" && node != was:
		c.violations.add("pod %s was on %s and is on %q", pod.Name, was, node)
	case was == "" && node != "":
		c.noteBind(pod)
	}
	if deleted {
		c.forget(pod)
	} else {
		c.pods[pod.UID] = pod
	}
	if c.unfit[pod.Name] && binding.HasPodScheduledFalse(pod) {
		delete(c.unfit, pod.Name)
		c.refused = append(c.refused, pod.Name)
		c.result.Refused++
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// noteBind checks that the node has what the pod requests.
func (c *churn) noteBind(pod *corev1.Pod) {
	delete(c.pending, pod.Name)
	c.binds++
	c.boundPods = append(c.boundPods, pod.Name)
	name := pod.Spec.NodeName
	used := c.use(pod, 1)
	if used.pods > podsPerNode || used.milliCPU > milliCPU {
		c.violations.add("pod %s was bound to %s, which then had %d of %d pods and %dm of %dm CPU", pod.Name, name, used.pods, podsPerNode, used.milliCPU, milliCPU)
	}
}

// use adds what a pod requests to its node, or subtracts it.
func (c *churn) use(pod *corev1.Pod, sign int64) usage {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	used := c.used[pod.Spec.NodeName]
	used.pods += sign
	used.milliCPU += sign * requests.Cpu().MilliValue()
	c.used[pod.Spec.NodeName] = used
	return used
}

// forget forgets a deleted pod. If it was bound, its generation must have run.
func (c *churn) forget(pod *corev1.Pod) {
	c.result.Deleted++
	delete(c.pods, pod.UID)
	delete(c.pending, pod.Name)
	delete(c.unfit, pod.Name)
	delete(c.asked, pod.Name)
	if pod.Spec.NodeName == "" {
		return
	}
	c.use(pod, -1)
	c.boundPods = slices.DeleteFunc(c.boundPods, func(name string) bool { return name == pod.Name })
	if _, err := c.decidingGeneration(pod); err != nil {
		c.doubtful = append(c.doubtful, pod)
	}
}

// until returns when done is true, or an error when ctx ends. done is called with the lock held.
func (c *churn) until(ctx context.Context, done func() bool) error {
	for {
		c.mu.Lock()
		is, changed := done(), c.changed
		c.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
