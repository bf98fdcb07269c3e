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

// status returns a function that scrapes with a token and returns the HTTP status.
func status(ctx context.Context, manager *process.Manager, token string) func() (int, error) {
	return func() (int, error) {
		status, _, err := manager.Scrape(ctx, token)
		return status, err
	}
}

var _ = Describe("The metrics endpoint", func() {
	It("serves those whom the API server permits to get /metrics", minute, func(ctx SpecContext) {
		manager := startManager(ctx)
		Eventually(status(ctx, manager, reader)).Should(Equal(http.StatusOK))
		Expect(status(ctx, manager, "")()).To(Equal(http.StatusUnauthorized))
		// controller-runtime answers an invalid token with an internal error.
		Expect(status(ctx, manager, "made up")()).To(Equal(http.StatusInternalServerError))
		Expect(status(ctx, manager, stranger)()).To(Equal(http.StatusForbidden))
		answer, err := http.Get("http://" + manager.Metrics + "/metrics")
		Expect(err).NotTo(HaveOccurred())
		defer answer.Body.Close()
		Expect(answer.StatusCode).To(Equal(http.StatusBadRequest), "without TLS")
	})

	It("serves everybody with --metrics-secure=false", minute, func(ctx SpecContext) {
		manager := startManager(ctx, "--metrics-secure=false")
		var answer *http.Response
		Eventually(func() (err error) {
			answer, err = http.Get("http://" + manager.Metrics + "/metrics")
			return err
		}).Should(Succeed())
		defer answer.Body.Close()
		Expect(answer.StatusCode).To(Equal(http.StatusOK))
	})

	It("uses the given certificate", minute, func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		certificate, key, err := certutil.GenerateSelfSignedCertKey("metrics.test", []net.IP{{127, 0, 0, 1}}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
		manager := startManager(ctx, "--metrics-cert-dir="+dir)

		known := x509.NewCertPool()
		Expect(known.AppendCertsFromPEM(certificate)).To(BeTrue())
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, DisableKeepAlives: true}}
		Eventually(func() (int, error) {
			answer, err := caller.Get("https://" + manager.Metrics + "/metrics")
			if err != nil {
				return 0, err
			}
			defer answer.Body.Close()
			return answer.StatusCode, nil
		}).Should(Equal(http.StatusUnauthorized))
	})

	DescribeTable("refuses invalid flags at the start", func(ctx SpecContext, want string, flags ...string) {
		command := exec.CommandContext(ctx, os.Args[0], flags...)
		command.Env = append(os.Environ(), process.SelfEnvironment(""))
		output, err := command.CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(output)).To(ContainSubstring(want))
	},
		Entry("a folder without a certificate", minute, "--metrics-cert-dir: must hold tls.crt and tls.key", "--metrics-cert-dir=/nowhere"),
		Entry("a certificate without TLS", minute, "--metrics-cert-dir: needs --metrics-secure", "--metrics-cert-dir=/nowhere", "--metrics-secure=false"),
	)
})
