package faults

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = DescribeTable("A validating webhook", func(ctx SpecContext, f fault) {
	long()
	env.run(ctx, f)
},
	Entry("hangs at every Binding", limit, fault{
		lasts: 15 * time.Second, begin: webhook(hangs, rule{"", "v1", "pods/binding"}),
	}),
	Entry("refuses every Binding", limit, fault{
		lasts: 15 * time.Second, begin: webhook(fails, rule{"", "v1", "pods/binding"}),
	}),
	Entry("hangs at every status of a pod", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(hangs, rule{"", "v1", "pods/status"}),
	}),
	Entry("fails at every status of a pod, for longer than a write is repeated", limit, fault{
		lasts: 25 * time.Second, binds: true, begin: webhook(fails, rule{"", "v1", "pods/status"}),
	}),
	Entry("hangs at every status of a profile", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(hangs, rule{"berth.dev", "v1alpha1", "schedulingprofiles/status"}),
	}),
	Entry("fails at every status of a profile", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(fails, rule{"berth.dev", "v1alpha1", "schedulingprofiles/status"}),
	}),
	Entry("hangs at every revision", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(hangs, rule{"apps", "v1", "controllerrevisions"}),
	}),
	Entry("fails at every revision", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(fails, rule{"apps", "v1", "controllerrevisions"}),
	}),
	Entry("hangs at every SchedulingDecision", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(hangs, rule{"berth.dev", "v1alpha1", "schedulingdecisions"}),
	}),
	Entry("hangs at every Event", limit, fault{
		lasts: 15 * time.Second, binds: true, begin: webhook(hangs, rule{"events.k8s.io", "v1", "events"}),
	}),
	Entry("hangs at the journal", limit, fault{
		lasts: 15 * time.Second, begin: webhook(hangs, rule{"", "v1", "configmaps"}),
	}),
	Entry("fails at every renewal of the Lease", limit, fault{
		launch: elected, replicas: 2, ends: true, lasts: 10 * time.Second, begin: webhook(fails, rule{"coordination.k8s.io", "v1", "leases"}),
	}),
)

// rule is what a webhook is called for.
type rule struct{ group, version, resource string }

// hookTimeout is how long the API server waits for a webhook, in seconds.
const hookTimeout = 5

// hangs is a webhook that does not answer.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that its client has gone
	<-r.Context().Done()
}

// fails is a webhook that answers with an error.
func fails(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the webhook has no backend", http.StatusServiceUnavailable)
}

// webhook returns the beginning of a fault: requests fail that the webhook does not allow.
func webhook(serve http.HandlerFunc, r rule) func(context.Context, *play) func(context.Context) {
	return func(ctx context.Context, p *play) func(context.Context) {
		GinkgoHelper()
		server := httptest.NewTLSServer(serve)
		DeferCleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		hook := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "fault.berth.test"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "fault.berth.test", FailurePolicy: new(admissionv1.Fail), TimeoutSeconds: new(int32(hookTimeout)),
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionv1.WebhookClientConfig{
					URL:      &server.URL,
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{r.group}, APIVersions: []string{r.version}, Resources: []string{r.resource}},
				}},
			}},
		}
		hooks := p.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		Expect(hooks.Create(ctx, hook, metav1.CreateOptions{})).Error().NotTo(HaveOccurred())
		remove := func(ctx context.Context) {
			GinkgoHelper()
			err := hooks.Delete(ctx, hook.Name, metav1.DeleteOptions{})
			Expect(err).To(Or(Succeed(), MatchError(ContainSubstring("not found"))))
		}
		DeferCleanup(func(ctx SpecContext) { remove(ctx) })
		return remove
	}
}
