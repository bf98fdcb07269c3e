package leadership

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// lostLists is a client whose lists get no answer.
type lostLists struct {
	metadata.Interface
	metadata.Getter
}

func (l lostLists) Resource(schema.GroupVersionResource) metadata.Getter { return l }

func (lostLists) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAPageThatIsLostIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*PageTimeout)
		defer cancel()
		_, err := NewQuorumLister(lostLists{})(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "")
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("%v, want a deadline of the page", err)
		}
	})
}
