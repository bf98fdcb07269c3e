package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/operator"
)

// tokenLifetime is long enough for a manager to start and to bind pods.
const tokenLifetime = 45 * time.Second

var _ = DescribeTable("The token of the manager's account", func(ctx SpecContext, l launch, ends bool) {
	long()
	file := filepath.Join(GinkgoT().TempDir(), "token")
	renew := func(ctx context.Context, lifetime time.Duration) {
		GinkgoHelper()
		token, err := env.cp.ShortToken(ctx, operator.Namespace, operator.Account, lifetime)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, []byte(token), 0o600)).To(Succeed())
	}
	renew(ctx, tokenLifetime)
	expires := time.Now().Add(tokenLifetime)
	config := rest.CopyConfig(env.accountConfig(ctx))
	config.BearerToken, config.BearerTokenFile = "", file
	l.kubeconfig = env.kubeconfig("token", config)
	env.run(ctx, fault{
		// The API server remembers for ten seconds that a token is valid.
		launch: l, ends: ends, lasts: time.Until(expires) + 25*time.Second,
		begin: func(context.Context, *play) func(context.Context) {
			return func(ctx context.Context) { renew(ctx, time.Hour) }
		},
	})
},
	Entry("expires, and is renewed too late for the Lease", limit, elected, true),
	Entry("expires, and is renewed while a manager without election runs", limit, noElection, false),
)

var _ = Describe("The certificate of the manager's metrics", func() {
	It("expires, and is served again as soon as it is renewed, without a restart", limit, func(ctx SpecContext) {
		long()
		dir := GinkgoT().TempDir()
		known := x509.NewCertPool()
		renew := func(lifetime time.Duration) {
			GinkgoHelper()
			certificate, key := selfSigned(lifetime)
			Expect(known.AppendCertsFromPEM(certificate)).To(BeTrue())
			Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
		}
		renew(time.Hour)
		check := env.startChecker(ctx, nil)
		r := env.startReplica(ctx, launch{flags: append([]string{"--metrics-cert-dir=" + dir}, shortLease...)})
		secure := func() error {
			caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, DisableKeepAlives: true}}
			answer, err := caller.Get("https://" + r.manager().Metrics + "/metrics")
			if err == nil {
				_ = answer.Body.Close()
			}
			return err
		}
		Eventually(secure).Should(Succeed())
		renew(-time.Minute)
		Eventually(secure).Should(MatchError(ContainSubstring("expired")))
		renew(time.Hour)
		Eventually(secure).Should(Succeed())
		Expect(r.restarts()).To(BeZero())
		expectNoViolation(ctx, check, checker.I10, checker.Complete)
	})
})

// selfSigned returns a certificate for the loopback address, and its key.
func selfSigned(lifetime time.Duration) (certificate, key []byte) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "metrics.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	keyDER, err := x509.MarshalECPrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}
