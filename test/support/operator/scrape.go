package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
)

// AccountWith makes a ServiceAccount in the namespace default and returns a token of
// it. role is the ClusterRole that it gets; empty for none.
func AccountWith(ctx context.Context, cp *controlplane.ControlPlane, name, role string) (token string, err error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := cp.Client().CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("making the account %s: %w", name, err)
	}
	if role != "" {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
		}
		if _, err := cp.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("binding %s to %s: %w", name, role, err)
		}
	}
	config, err := cp.ServiceAccountConfig(ctx, "default", name)
	if err != nil {
		return "", err
	}
	return config.BearerToken, nil
}

// ScrapeRole is the ClusterRole of those who may scrape.
const ScrapeRole = "berth-metrics-reader-role"

// Scrape reads the manager's metrics with a token; without one when it is empty.
// Its certificate is not looked at.
func (m *Manager) Scrape(ctx context.Context, token string) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.Metrics+"/metrics", nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	way := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: way}).Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}
