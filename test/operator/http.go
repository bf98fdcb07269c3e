package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// get returns the body of a good answer, which the caller closes.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return answer.Body, nil
}
