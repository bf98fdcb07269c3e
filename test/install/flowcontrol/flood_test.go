package flowcontrol

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/apitest"
)

// floodRequests is the number of requests that wait at the API server, several times as
// many as it serves.
const floodRequests = 300

// startFlood has many service accounts create ConfigMaps for which a webhook does not
// answer, until the spec ends: requests that the API server serves do not end.
func startFlood(ctx context.Context) {
	GinkgoHelper()
	const name = "flood"
	apitest.Created(ctx, admin, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{name: name}}})
	apitest.Created(ctx, admin, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}},
	})
	apitest.Created(ctx, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + name}},
	})
	registerSlowWebhook(ctx, name)

	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var clients sync.WaitGroup
	DeferCleanup(func() {
		stop()
		clients.Wait()
	})
	for i := range floodRequests {
		config := cp.Config()
		config.Impersonate = rest.ImpersonationConfig{
			UserName: fmt.Sprintf("system:serviceaccount:%s:client-%d", name, i),
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + name, "system:authenticated"},
		}
		client, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		clients.Go(func() {
			for ctx.Err() == nil {
				object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}
				_, _ = client.CoreV1().ConfigMaps(name).Create(ctx, object, metav1.CreateOptions{})
			}
		})
	}
}

// registerSlowWebhook registers a webhook for ConfigMaps of one namespace, which answers
// when the spec ends.
func registerSlowWebhook(ctx context.Context, namespace string) {
	GinkgoHelper()
	ended := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "want an AdmissionReview", http.StatusBadRequest)
			return
		}
		select {
		case <-ended:
		case <-r.Context().Done():
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID}
		_ = json.NewEncoder(w).Encode(review) // the API server may have given up
	}))
	DeferCleanup(server.Close)
	DeferCleanup(func() { close(ended) })
	url := server.URL
	apitest.Created(ctx, admin, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{namespace: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	})
}

// queuedRequests returns how many requests of a priority level wait in the API server.
func queuedRequests(ctx context.Context, level string) (requests int, err error) {
	text, err := cp.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	line := regexp.MustCompile(`(?m)^apiserver_flowcontrol_current_inqueue_requests\{flow_schema="[^"]*",priority_level="` + level + `"\} (\S+)$`)
	for _, found := range line.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, err
		}
		requests += int(n)
	}
	return requests, nil
}
