package handover

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/handover/history"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
)

const (
	// rate is how many pods go a second, and come for them.
	rate = 25
	// fewest are left on the node while nobody binds.
	fewest = Places / 2
	// workers create the first pods.
	workers = 8
)

// crowd are the pods: as many at any time, but not the same.
type crowd struct {
	client kubernetes.Interface
	record *history.Record
	end    context.CancelFunc
	over   sync.WaitGroup
	err    error
}

// gather lets pods come and go until stop.
func gather(client kubernetes.Interface, record *history.Record) *crowd {
	ctx, end := context.WithCancel(context.Background())
	c := &crowd{client: client, record: record, end: end}
	c.over.Go(func() {
		if c.err = c.move(ctx); c.err != nil {
			record.Fail(c.err)
		}
	})
	return c
}

// stop leaves the crowd as it is, and says why it did not move, if so.
func (c *crowd) stop() error {
	c.end()
	c.over.Wait()
	return c.err
}

func (c *crowd) move(ctx context.Context) error {
	err := load.Each(ctx, Pods, workers, c.come)
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	for next := Pods; err == nil; next++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		placed := c.record.Placed()
		if len(placed) <= fewest {
			continue
		}
		// Whole, whatever ctx does: as many come as go.
		first := placed[0]
		err = c.client.CoreV1().Pods(first.Namespace).Delete(context.Background(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		switch {
		case apierrors.IsNotFound(err):
			err = nil // the record lags
			continue
		case err == nil:
			err = c.come(context.Background(), next)
		}
	}
	return err
}

// come creates the i-th pod.
func (c *crowd) come(ctx context.Context, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("pod-%d", i)},
		Spec: corev1.PodSpec{SchedulerName: profile, Containers: []corev1.Container{{
			Name: "app", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
			},
		}}},
	}
	fixture.AddWorkloadFields(&pod.Spec)
	_, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
