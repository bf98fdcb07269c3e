package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certutil "k8s.io/client-go/util/cert"

	process "github.com/berthdev/berth/test/support/operator"
)

// status is what a scrape with a token is answered.
func status(ctx context.Context, manager *process.Manager, token string) func() (int, error) {
	return func() (int, error) {
		status, _, err := manager.Scrape(ctx, token)
		return status, err
	}
}

var _ = Describe("Who is told", func() {
	It("is whom the API server lets get /metrics", minute, func(ctx SpecContext) {
		manager := manages(ctx)
		Eventually(status(ctx, manager, reader)).Should(Equal(http.StatusOK))
		Expect(status(ctx, manager, "")()).To(Equal(http.StatusUnauthorized))
		// controller-runtime takes a token that nobody gave for a fault of its own.
		Expect(status(ctx, manager, "made up")()).To(Equal(http.StatusInternalServerError))
		Expect(status(ctx, manager, stranger)()).To(Equal(http.StatusForbidden))
		answer, err := http.Get("http://" + manager.Metrics + "/metrics")
		Expect(err).NotTo(HaveOccurred())
		defer answer.Body.Close()
		Expect(answer.StatusCode).To(Equal(http.StatusBadRequest), "without TLS")
	})

	It("is everybody, where that is asked for", minute, func(ctx SpecContext) {
		manager := manages(ctx, "--metrics-secure=false")
		var answer *http.Response
		Eventually(func() (err error) {
			answer, err = http.Get("http://" + manager.Metrics + "/metrics")
			return err
		}).Should(Succeed())
		defer answer.Body.Close()
		Expect(answer.StatusCode).To(Equal(http.StatusOK))
	})

	It("can tell the manager by its certificate, where there is one", minute, func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		certificate, key, err := certutil.GenerateSelfSignedCertKey("metrics.test", []net.IP{{127, 0, 0, 1}}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
		manager := manages(ctx, "--metrics-cert-dir="+dir)

		known := x509.NewCertPool()
		Expect(known.AppendCertsFromPEM(certificate)).To(BeTrue())
		asks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, DisableKeepAlives: true}}
		Eventually(func() (int, error) {
			answer, err := asks.Get("https://" + manager.Metrics + "/metrics")
			if err != nil {
				return 0, err
			}
			defer answer.Body.Close()
			return answer.StatusCode, nil
		}).Should(Equal(http.StatusUnauthorized))
	})

	DescribeTable("and what cannot be is refused at the start", func(ctx SpecContext, want string, flags ...string) {
		command := exec.CommandContext(ctx, os.Args[0], flags...)
		command.Env = append(os.Environ(), process.SelfEnvironment(""))
		said, err := command.CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(said)).To(ContainSubstring(want))
	},
		Entry("a folder without a certificate", minute, "--metrics-cert-dir: must hold tls.crt and tls.key", "--metrics-cert-dir=/nowhere"),
		Entry("a certificate that nobody would see", minute, "--metrics-cert-dir: needs --metrics-secure", "--metrics-cert-dir=/nowhere", "--metrics-secure=false"),
	)
})
