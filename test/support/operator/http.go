package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// get returns the body of a good answer, which the caller closes.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	answer, err := ask(ctx, url)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return answer.Body, nil
}

// Answer is what a GET is answered, whatever it is: the status and the body, as in
// "200 ok".
func Answer(ctx context.Context, url string) (string, error) {
	answer, err := ask(ctx, url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s", answer.StatusCode, text), err
}

func ask(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}
