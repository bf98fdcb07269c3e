package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/tcpproxy"
)

const (
	// namespace has all pods.
	namespace = "faults"
	// quota is what etcd stores at most: a spec fills it.
	quota = 256 << 20
)

// testEnv is the control plane. The suite uses its first API server, and managers the other one.
type testEnv struct {
	cp     *controlplane.ControlPlane
	admin  apitest.API
	client kubernetes.Interface
	// api is the API server of the managers, config the administrator's configuration for it.
	// It reaches etcd through etcdLink, and managers reach it through front.
	api             *controlplane.Process
	config          *rest.Config
	etcdLink, front *tcpproxy.Proxy
	// audit are the audit logs of the API servers that managers may use.
	audit []audit.Log
	// manager is the path of the manager's binary.
	manager string
	// debugger is the token of an account that may read metrics and debug endpoints.
	debugger string
}

// startEnv starts the control plane until the suite ends.
func startEnv(ctx context.Context) *testEnv {
	GinkgoHelper()
	e := &testEnv{}
	var err error
	e.manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	e.cp, err = controlplane.Start(ctx, controlplane.Options{
		EtcdArgs: []string{fmt.Sprintf("--quota-backend-bytes=%d", quota)},
		APIServerArgs: []string{
			// No controller runs that would remove taints and finalizers.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
			"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(e.cp.Stop)
	e.etcdLink = e.startProxy(strings.TrimPrefix(e.cp.Etcd(), "http://"))
	e.config = e.startAPIServer(ctx, "--etcd-servers=http://"+e.etcdLink.Address())
	e.api = e.cp.Process("kube-apiserver")
	e.front = e.startProxy(strings.TrimPrefix(e.config.Host, "https://"))
	e.createObjects(ctx)
	return e
}

// startProxy starts a proxy until the suite or the spec ends.
func (e *testEnv) startProxy(target string) *tcpproxy.Proxy {
	GinkgoHelper()
	p, err := tcpproxy.Start(target)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Stop)
	return p
}

// startAPIServer starts one more API server, with an audit log.
func (e *testEnv) startAPIServer(ctx context.Context, args ...string) *rest.Config {
	GinkgoHelper()
	log, flags, err := checker.AuditFlags(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	e.audit = append(e.audit, log)
	config, err := e.cp.AnotherAPIServer(ctx, append(flags, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// createObjects installs Berth and creates what all specs share.
func (e *testEnv) createObjects(ctx context.Context) {
	GinkgoHelper()
	var err error
	e.admin.Client, err = client.New(e.cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	e.client, err = load.Client(e.cp.Config())
	Expect(err).NotTo(HaveOccurred())
	Expect(operator.Install(ctx, e.cp)).To(Succeed())
	Expect(e.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	e.debugger, err = operator.AccountWith(ctx, e.cp, "debugger", "berth-debugger-role")
	Expect(err).NotTo(HaveOccurred())
}

// accountConfig returns the configuration of the manager's account, through front.
func (e *testEnv) accountConfig(ctx context.Context) *rest.Config {
	GinkgoHelper()
	account, err := operator.AccountConfig(ctx, e.cp)
	Expect(err).NotTo(HaveOccurred())
	config := rest.CopyConfig(e.config)
	config.Host, config.BearerToken = "https://"+e.front.Address(), account.BearerToken
	return config
}

// kubeconfig writes a configuration to a file of that name.
func (e *testEnv) kubeconfig(name string, config *rest.Config) string {
	GinkgoHelper()
	path, err := e.cp.WriteKubeconfig(name, config)
	Expect(err).NotTo(HaveOccurred())
	return path
}

// insecure is a client for certificates that managers sign themselves.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// read returns the body of a response with status 200.
func read(ctx context.Context, url, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := insecure.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return body, err
}
