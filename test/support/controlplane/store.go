package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Store writes value into etcd under key, past the API server and all that it
// checks: "/registry/pods/shop/web". An object is JSON there as well as in a
// request; the API server reads it and tells its watchers of it.
func (cp *ControlPlane) Store(ctx context.Context, key string, value []byte) error {
	// etcd's gateway takes bytes as base64, as encoding/json writes them.
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cp.etcd+"/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("etcd answers %s to a write of %d bytes to %s: %s", resp.Status, len(value), key, text)
	}
	return nil
}
