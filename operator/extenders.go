package operator

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
)

// extenderPermissions returns what the flags allow extenders to do.
func (o options) extenderPermissions() compile.ExtenderPermissions {
	return compile.ExtenderPermissions{Enabled: o.enableExtenders, Writes: o.enableExtenderWrites}
}

// newExtenderClient returns the function that creates clients of extenders; nil when
// extenders are not enabled.
func (o options) newExtenderClient(config *restclient.Config, client clientset.Interface, log logr.Logger) func(context.Context, string, extender.Config) (fwk.Extender, error) {
	if !o.enableExtenders {
		return nil
	}
	shared := extender.Options{Certificate: ClientCertificates(client, o.namespace), Forbidden: apiServerAddresses(config), Log: log.WithName("extender")}
	return func(ctx context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		return extender.New(ctx, profile, c, shared)
	}
}

// extenderClients returns the function that creates clients of extenders: that of
// WithExtenderClient, or the default; nil when extenders are not enabled.
func (m *Manager) extenderClients() ExtenderClient {
	if m.enableExtenders && m.extenderClient != nil {
		return m.extenderClient
	}
	return m.newExtenderClient(m.config, m.clients.watches, m.log)
}

// ClientCertificates returns a function that reads client certificates for extenders
// from Secrets in Berth's namespace only. config/components/extenders grants the right.
func ClientCertificates(client clientset.Interface, namespace string) func(context.Context, string) (extender.Certificate, error) {
	return func(ctx context.Context, name string) (extender.Certificate, error) {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return extender.Certificate{}, err
		}
		if secret.Type != v1.SecretTypeTLS {
			return extender.Certificate{}, fmt.Errorf("its type must be %s, is %s", v1.SecretTypeTLS, secret.Type)
		}
		return extender.Certificate{
			Version: string(secret.UID) + "/" + secret.ResourceVersion,
			Chain:   secret.Data[v1.TLSCertKey], Key: secret.Data[v1.TLSPrivateKeyKey],
		}, nil
	}
}

// apiServerAddresses returns the addresses of the API server, which extenders may not
// have; nil when they cannot be found. In a cluster the address comes from the pod's
// environment and is in config.
func apiServerAddresses(config *restclient.Config) []netip.AddrPort {
	u, err := url.Parse(config.Host)
	if err != nil {
		return nil
	}
	port := uint64(443)
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return nil
		}
	}
	var addresses []netip.AddrPort
	hosts, err := net.LookupHost(u.Hostname()) // it returns an IP address unchanged
	if err != nil {
		return nil
	}
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, netip.AddrPortFrom(address.Unmap().WithZone(""), uint16(port)))
		}
	}
	return addresses
}
