package controlplane_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAKilledProcessStartsAgainWithItsData(t *testing.T) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept-by-" + name}}
			maps := cp.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
			if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			killed := cp.Process(name)
			next, err := cp.Kill(killed)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if next == killed || cp.Process(name) != next {
				t.Errorf("the %s that runs is not the one that was started again", name)
			}
			eventually(t, func(ctx context.Context) (string, error) {
				if _, err := maps.Get(ctx, object.Name, metav1.GetOptions{}); err != nil {
					return err.Error(), nil
				}
				return "", nil
			})
			if err := cp.Running(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAProcessThatRunsInPulsesGoesOnAfterThem(t *testing.T) {
	end := cp.Process("etcd").Pulse(time.Millisecond, 5*time.Millisecond)
	_, err := cp.Client().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceDefault, metav1.GetOptions{})
	end()
	if err != nil {
		t.Errorf("while it runs in pulses: %v", err)
	}
	if _, err := cp.Client().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAShortTokenIsThatOfItsAccountUntilItExpires(t *testing.T) {
	user := func(lifetime time.Duration) (string, error) {
		token, err := cp.ShortToken(t.Context(), metav1.NamespaceDefault, "default", lifetime)
		if err != nil {
			t.Fatal(err)
		}
		config := cp.Config()
		config.BearerToken = token
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return review.Status.UserInfo.Username, nil
	}
	if name, err := user(time.Minute); err != nil || name != "system:serviceaccount:default:default" {
		t.Errorf("got %q and %v for a token that is valid", name, err)
	}
	if name, err := user(-time.Minute); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %q and %v for a token that has expired", name, err)
	}
}
