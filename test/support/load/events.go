package load

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CountEvents says how many events a namespace holds. It asks for one, and
// reads how many more there are.
func CountEvents(ctx context.Context, client kubernetes.Interface, namespace string) (int, error) {
	list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("counting events: %w", err)
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}
