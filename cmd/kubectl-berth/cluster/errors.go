package cluster

import (
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berthdev/berth/api/v1alpha1"
)

// notInstalled is what is said of a cluster that does not know our kinds.
const messageNotInstalled = "Berth's CRDs are not installed in this cluster; install them with: kubectl apply --server-side -k config/crd"

// Missing says whether err is that the API server does not serve one of our
// kinds.
func IsKindNotServed(err error) bool {
	if err == nil {
		return false
	}
	if noKind := (*meta.NoKindMatchError)(nil); errors.As(err, &noKind) {
		return noKind.GroupKind.Group == v1alpha1.GroupVersion.Group
	}
	// A discovery that was read before the kinds went: the path is not served.
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == "" && (details.Group == v1alpha1.GroupVersion.Group || len(details.Causes) > 0)
}

// Plain returns err in words that say what to do.
func UserError(err error) error {
	refused := (*net.OpError)(nil)
	switch {
	case err == nil:
		return nil
	case IsKindNotServed(err):
		return fmt.Errorf("%s", messageNotInstalled) // Berth is a name
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; `kubectl berth check` says which rights each verb needs", err)
	case errors.As(err, &refused):
		return fmt.Errorf("the API server does not answer: %w; is it the right --context?", err)
	}
	return err
}
