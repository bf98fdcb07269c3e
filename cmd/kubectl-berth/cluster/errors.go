package cluster

import (
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berthdev/berth/api/v1alpha1"
)

// messageNotInstalled is the error for a cluster without the CRDs of Berth.
const messageNotInstalled = "the CRDs of Berth are not installed in this cluster; install them with: kubectl apply --server-side -k config/crd"

// IsKindNotServed reports whether err means that the API server does not serve a kind of
// Berth.
func IsKindNotServed(err error) bool {
	if err == nil {
		return false
	}
	if noKind := (*meta.NoKindMatchError)(nil); errors.As(err, &noKind) {
		return noKind.GroupKind.Group == v1alpha1.GroupVersion.Group
	}
	// The discovery was cached before the CRDs were deleted: the API server answers that the
	// path does not exist.
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == "" && (details.Group == v1alpha1.GroupVersion.Group || len(details.Causes) > 0)
}

// UserError adds to an error of the API server what the user can do about it.
func UserError(err error) error {
	network := (*net.OpError)(nil)
	switch {
	case err == nil:
		return nil
	case IsKindNotServed(err):
		return errors.New(messageNotInstalled)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; `kubectl berth check` lists the permissions that each verb needs", err)
	case errors.As(err, &network):
		return fmt.Errorf("cannot reach the API server: %w; check --context", err)
	}
	return err
}
