package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// retryAfterSeconds is when to send a request again that is Unavailable.
const retryAfterSeconds = 5

// apiError is an error of a request, with the status of the response and a sentence.
type apiError struct {
	status   int
	sentence string
}

func (e *apiError) Error() string { return e.sentence }

// query returns the value that is the response to a request, as JSON.
type query func(*http.Request) (any, error)

// answer returns the handler of a query.
func answer(q query) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
		defer cancel()
		value, err := q(r.WithContext(ctx))
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, value)
	}
}

// writeJSON writes a value as the response. The encoder escapes <, > and &.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(value); err != nil {
		status = http.StatusInternalServerError
		body.Reset()
		_ = json.NewEncoder(&body).Encode(errorBody{err.Error()}) // into memory
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // an error means that the page is gone
}

// errorBody is the response to a request that failed.
type errorBody struct {
	Error string `json:"error"`
}

// writeError writes the response to a request that failed.
func writeError(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	writeJSON(w, status, errorBody{err.Error()})
}

// statusOf returns the status of the response for an error. The API server's own status is
// kept where it is about the request, and not about the credentials or the API server.
func statusOf(err error) int {
	own, status, network := (*apiError)(nil), apierrors.APIStatus(nil), net.Error(nil)
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return http.StatusGatewayTimeout
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case cluster.IsKindNotServed(err):
		return http.StatusNotFound
	case errors.As(err, &status):
		code := int(status.Status().Code)
		if code < http.StatusBadRequest || code >= http.StatusInternalServerError || code == http.StatusUnauthorized || code == http.StatusTooManyRequests {
			return http.StatusBadGateway
		}
		return code
	case errors.As(err, &network):
		return http.StatusBadGateway
	}
	// The request is understood, and has no answer: a manifest that is invalid, a profile that
	// is not running.
	return http.StatusUnprocessableEntity
}
