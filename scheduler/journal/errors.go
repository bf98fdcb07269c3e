package journal

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/scheduler/leadership"
)

// errSuperseded says that the journal is not what this process wrote last.
var errSuperseded = errors.New("the ConfigMap " + Name + " was written by another process, or edited, since this process wrote it")

// conflictError says that the journal was not at the version that a write named.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

// malformedError says that the journal cannot be parsed.
type malformedError struct{ err error }

func (e *malformedError) Error() string {
	return fmt.Sprintf("the ConfigMap %s is not a journal of Bindings: %v", Name, e.err)
}

// isPermanent reports whether a request was certainly rejected, or not sent, for a
// reason that a retry at once does not remove.
func isPermanent(err error) bool {
	return errors.Is(err, errSuperseded) || errors.Is(err, leadership.ErrNotLeading) || apierrors.IsForbidden(err) ||
		apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}
