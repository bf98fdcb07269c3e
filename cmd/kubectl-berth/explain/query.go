package explain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Answer explains one pod.
type Answer struct {
	// Pod is the pod that is explained.
	Pod         *corev1.Pod
	Explanation Explanation
	// Text is what the verb prints.
	Text string
	// Notes say what could not be read.
	Notes []string
}

// Query explains a pod, as the verb does. It returns an error only if the pod cannot be
// read; it is NotFound if there is no such pod.
func Query(ctx context.Context, env verb.Env, c *cluster.Cluster, name client.ObjectKey) (*Answer, error) {
	pod, err := getPod(ctx, c, name)
	if err != nil {
		return nil, err
	}
	a := &Answer{Pod: pod}
	o := &options{Env: env, warn: func(text string) { a.Notes = append(a.Notes, text) }}
	info := o.readProfiles(ctx, c).find(pod)
	a.Explanation = o.explanation(ctx, c, pod, info)
	if a.Text, err = o.text(pod, info, a.Explanation); err != nil {
		// The annotation cannot be read, which the notes of the explanation say, too.
		a.Text = show.Wrap(err.Error(), "", "  ") + "\n"
	}
	return a, nil
}

// EvaluateMatrix runs every plugin of a pod's profile on every node, as --matrix does. The
// error is NotFound if there is no such pod.
func EvaluateMatrix(ctx context.Context, env verb.Env, c *cluster.Cluster, name client.ObjectKey) (*Matrix, error) {
	pod, err := getPod(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return (&options{Env: env}).matrixOf(ctx, c, pod)
}

// getPod reads a pod.
func getPod(ctx context.Context, c *cluster.Cluster, name client.ObjectKey) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, name, pod); err != nil {
		return nil, cluster.UserError(err)
	}
	return pod, nil
}
