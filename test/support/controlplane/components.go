package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// EtcdFolder is the data folder of etcd in the folder of a control plane.
const EtcdFolder = "etcd"

// startAPI starts etcd and kube-apiserver on free ports.
func (cp *ControlPlane) startAPI(ctx context.Context) error {
	ports, err := FreeAddresses(3)
	if err != nil {
		return err
	}
	client := "http://" + ports[0]
	peer := "http://" + ports[1]
	cp.etcd = client
	data := filepath.Join(cp.dir, EtcdFolder)
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if from := cp.options.EtcdData; from != "" {
		if err := os.CopyFS(data, os.DirFS(from)); err != nil {
			return fmt.Errorf("copying the data of etcd: %w", err)
		}
	}
	etcd, err := cp.start("etcd", append([]string{
		"--data-dir=" + data,
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--quota-backend-bytes=8589934592",
		"--unsafe-no-fsync",
		"--log-level=error",
	}, cp.options.EtcdArgs...)...)
	if err != nil {
		return err
	}
	etcd.ready = func(ctx context.Context) error { return expectOK(ctx, http.DefaultClient, client+"/health") }
	if err := etcd.Until(ctx, etcd.ready); err != nil {
		return err
	}

	address := cmp.Or(cp.options.APIServerAddress, ports[2])
	cp.api, cp.admin, err = cp.startAPIServer(ctx, address, firstCertificates, cp.options.APIServerArgs...)
	if err != nil {
		return err
	}
	cp.client, err = kubernetes.NewForConfig(cp.admin)
	return err
}

// startOptional starts the other components that Options name. They do not depend on each
// other, so all are started before the first is waited for.
func (cp *ControlPlane) startOptional(ctx context.Context) error {
	components := []struct {
		wanted bool
		start  func() (*Process, error)
		ready  func(context.Context) error
	}{
		{cp.options.ControllerManager, cp.startControllerManager, cp.controllersWork},
		{cp.options.KWOK, cp.startKWOK, nil},           // works when a node becomes Ready
		{cp.options.Scheduler, cp.startScheduler, nil}, // works when a pod is bound
	}
	var waits []func() error
	for _, c := range components {
		if !c.wanted {
			continue
		}
		p, err := c.start()
		if err != nil {
			return err
		}
		if c.ready != nil {
			waits = append(waits, func() error { return p.Until(ctx, c.ready) })
		}
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

func (cp *ControlPlane) startControllerManager() (*Process, error) {
	controllers := "*"
	if len(cp.options.Controllers) > 0 {
		controllers = strings.Join(cp.options.Controllers, ",")
	}
	return cp.start("kube-controller-manager", append([]string{
		"--kubeconfig=" + cp.Kubeconfig(),
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + controllers,
		"--service-account-private-key-file=" + filepath.Join(cp.dir, "service-account.key"),
		"--use-service-account-credentials=false",
		"--allocate-node-cidrs=false",
		// Heartbeats are only late where the CPU is busy.
		"--node-monitor-grace-period=3600s",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}, cp.options.ControllerManagerArgs...)...)
}

// controllersWork is nil once the service account controller has created the account of the
// default namespace: from then on pods are admitted there.
func (cp *ControlPlane) controllersWork(ctx context.Context) error {
	_, err := cp.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (cp *ControlPlane) startKWOK() (*Process, error) {
	stages, err := cp.binaries.Path("stages")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(stages, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no stage of KWOK in " + stages)
	}
	which := "--manage-all-nodes"
	if cp.options.KWOKOnlyFake {
		which = "--manage-nodes-with-annotation-selector=" + fakeNodeAnnotation + "=" + fakeNode
	}
	args := []string{"--kubeconfig=" + cp.Kubeconfig(), which, "--server-address=127.0.0.1:0"}
	for _, f := range files {
		args = append(args, "--config="+f)
	}
	return cp.start("kwok", args...)
}

func (cp *ControlPlane) startScheduler() (*Process, error) {
	args := []string{"--kubeconfig=" + cp.Kubeconfig(), "--leader-elect=false"}
	if cp.options.SchedulerConfig != "" {
		args = []string{"--config=" + cp.options.SchedulerConfig}
	}
	return cp.start("kube-scheduler", append(args, "--secure-port=0", "--authentication-tolerate-lookup-failure=true")...)
}

// KubeScheduler starts a kube-scheduler with a configuration file, beside other schedulers. It
// ends with the control plane, or with Kill.
func (cp *ControlPlane) KubeScheduler(config string) (*Process, error) {
	return cp.start("kube-scheduler", "--config="+config, "--secure-port=0", "--authentication-tolerate-lookup-failure=true")
}

// FreeAddresses returns n different addresses, host and port, on 127.0.0.1 with free ports.
// Another process may use one before the caller does: be ready to try again.
func FreeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// expectOK sends a GET and expects status 200.
func expectOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
	}
	return nil
}
