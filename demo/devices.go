package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes with devices, and the claims of pods.
const (
	deviceNodes    = 5
	devicesPerNode = 2
	deviceLabel    = "example.com/gpu.present=true"
	// claimTemplate is the name of the ResourceClaimTemplate, and of the claim in pods.
	claimTemplate = "gpu"
)

//go:embed manifests/devices.yaml
var deviceManifest []byte

// publishDevices publishes devices for some of the nodes, as a driver does on its nodes.
func (s *demo) publishDevices(ctx context.Context) error {
	driver := filepath.Join(s.root, "bin", "devicedriver")
	if err := goBuild(ctx, filepath.Join(s.root, "test", "support", "devicedriver"), driver); err != nil {
		return err
	}
	names, err := s.emptiestNodes(ctx, deviceNodes)
	if err != nil {
		return err
	}
	if _, err := s.cp.Kubectl(ctx, nil, slices.Concat([]string{"label", "nodes"}, names, []string{deviceLabel})...); err != nil {
		return err
	}
	if _, err := s.cp.Kubectl(ctx, bytes.NewReader(deviceManifest), "apply", "--filename=-"); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, driver, "publish", "--once", "--kubeconfig="+s.cp.Kubeconfig(),
		"--selector="+deviceLabel, fmt.Sprintf("--devices=%d", devicesPerNode)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("devicedriver publish: %w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		s.printf("%s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// emptiestNodes returns the names of the count nodes with the fewest pods.
func (s *demo) emptiestNodes(ctx context.Context, count int) ([]string, error) {
	all, err := s.cp.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := s.cp.Client().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	perNode := map[string]int{}
	for i := range pods.Items {
		perNode[pods.Items[i].Spec.NodeName]++
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(perNode[a], perNode[b]) })
	return names[:min(count, len(names))], nil
}

// deployWithDevices creates two pods more than there are devices: each bound pod has a
// device of its own, and the others say what they lack.
func (s *demo) deployWithDevices(ctx context.Context) error {
	const devices, pending = deviceNodes * devicesPerNode, 2
	p, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.publishDevices(ctx); err != nil {
		return err
	}
	d := deployment("train", devices+pending, podCPU)
	d.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimTemplate, ResourceClaimTemplateName: new(claimTemplate)}}
	d.Spec.Template.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: claimTemplate}}
	if err := s.create(ctx, d); err != nil {
		return err
	}
	var waiting string
	err = s.poll(ctx, func() (missing string, err error) {
		waiting, missing, err = s.pendingPod(ctx, "train", pending)
		return missing, err
	})
	if err != nil {
		return err
	}
	if err := s.poll(ctx, func() (string, error) { return s.missingDevices(ctx, devices) }); err != nil {
		return err
	}
	s.printf("%d pods have a device each, of %d nodes", devices, deviceNodes)
	if err := s.kubectl(ctx, "get", "why", waiting, "--output=jsonpath={.status.deviceRequests}"); err != nil {
		return err
	}
	if err := s.scale(ctx, "train", devices); err != nil {
		return err
	}
	_, err = s.waitForPods(ctx, "train", devices, p.Metadata.Generation)
	return err
}

// pendingPod returns one of the pods of app that are unschedulable, and what is missing
// until so many are.
func (s *demo) pendingPod(ctx context.Context, app string, count int) (name, missing string, err error) {
	pods, err := s.pods(ctx, app)
	unschedulable := 0
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				unschedulable++
				name = pods[i].Name
			}
		}
	}
	if err != nil || unschedulable != count {
		return "", fmt.Sprintf("%d unschedulable pods of %s: %d are", count, app, unschedulable), err
	}
	_, err = s.cp.Kubectl(ctx, nil, "wait", "--for=create", "schedulingdecision/"+name, "--timeout=30s")
	return name, "", err
}

// missingDevices returns what is missing until claims hold so many devices, each another one.
func (s *demo) missingDevices(ctx context.Context, want int) (string, error) {
	claims, err := s.cp.Client().ResourceV1().ResourceClaims(podsNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	given := map[string]bool{}
	results := 0
	for i := range claims.Items {
		if allocation := claims.Items[i].Status.Allocation; allocation != nil {
			for _, device := range allocation.Devices.Results {
				given[device.Pool+"/"+device.Device] = true
				results++
			}
		}
	}
	if len(given) != want || results != want {
		return fmt.Sprintf("the claims have %d devices, %d of them different; want %d", results, len(given), want), nil
	}
	return "", nil
}
