package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// etcd is a client of etcd's gateway, which has its API as JSON over HTTP. Numbers of 64 bits
// are strings there, and keys and values are base64, as encoding/json has []byte.
type etcd struct{ url string }

// keyValue is a key with its value. Value is nil for a deleted key.
type keyValue struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"mod_revision,string"`
}

// header is that of each answer.
type header struct {
	Revision int64 `json:"revision,string"`
}

// allKeys is the range of all keys, in a request.
func allKeys() map[string]any { return map[string]any{"key": []byte{0}, "range_end": []byte{0}} }

// send sends a request. The caller closes the body.
func (e etcd) send(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return nil, fmt.Errorf("etcd answers %s to %s: %s", answer.Status, path, text)
	}
	return answer.Body, nil
}

// revision returns the current revision, by a linearizable read of a key that does not exist.
func (e etcd) revision(ctx context.Context) (int64, error) {
	body, err := e.send(ctx, "/v3/kv/range", map[string]any{"key": []byte("none")})
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var answer struct{ Header header }
	err = json.NewDecoder(body).Decode(&answer)
	return answer.Header.Revision, err
}

// pageSize is how many keys one request of list reads.
const pageSize = 1000

// list calls use with all keys at the current revision, which it returns.
func (e etcd) list(ctx context.Context, use func(keyValue)) (at int64, err error) {
	from := []byte{0}
	for {
		request := map[string]any{"key": from, "range_end": []byte{0}, "limit": fmt.Sprint(pageSize)}
		if at > 0 {
			request["revision"] = fmt.Sprint(at)
		}
		body, err := e.send(ctx, "/v3/kv/range", request)
		if err != nil {
			return 0, err
		}
		var answer struct {
			Header header     `json:"header"`
			KVs    []keyValue `json:"kvs"`
			More   bool       `json:"more"`
		}
		err = json.NewDecoder(body).Decode(&answer)
		body.Close()
		if err != nil {
			return 0, err
		}
		if at == 0 {
			at = answer.Header.Revision
		}
		for _, kv := range answer.KVs {
			use(kv)
		}
		if !answer.More || len(answer.KVs) == 0 {
			return at, nil
		}
		from = append(answer.KVs[len(answer.KVs)-1].Key, 0)
	}
}

// compactedError says that etcd no longer has the revision from which a watch was to begin.
type compactedError struct{ revision int64 }

func (e *compactedError) Error() string {
	return fmt.Sprintf("etcd has compacted its history up to revision %d", e.revision)
}

// watch calls use with each change from a revision on, until ctx ends or the watch breaks. The
// error is a *compactedError where the revision is not there any more.
func (e etcd) watch(ctx context.Context, from int64, use func(keyValue)) error {
	request := allKeys()
	request["start_revision"], request["fragment"] = fmt.Sprint(from), true
	body, err := e.send(ctx, "/v3/watch", map[string]any{"create_request": request})
	if err != nil {
		return err
	}
	defer body.Close()
	answers := json.NewDecoder(body)
	for {
		var answer struct {
			Result struct {
				Canceled        bool   `json:"canceled"`
				CancelReason    string `json:"cancel_reason"`
				CompactRevision int64  `json:"compact_revision,string"`
				Events          []struct {
					Type string   `json:"type"`
					KV   keyValue `json:"kv"`
				} `json:"events"`
			} `json:"result"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := answers.Decode(&answer); err != nil {
			return err
		}
		switch r := answer.Result; {
		case answer.Error != nil:
			return errors.New(answer.Error.Message)
		case r.Canceled && r.CompactRevision > 0:
			return &compactedError{r.CompactRevision}
		case r.Canceled:
			return errors.New("etcd ended the watch: " + r.CancelReason)
		}
		for _, event := range answer.Result.Events {
			if event.Type == "DELETE" {
				event.KV.Value = nil
			}
			use(event.KV)
		}
	}
}
