package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

const (
	// deltaInterval is the time between two deltas at least.
	deltaInterval = 250 * time.Millisecond
	// pingInterval is how long a stream is silent at most.
	pingInterval = 15 * time.Second
	// lineTimeout is how long a client may take to read a line. A stream that a browser has
	// stopped reading leaves its place to others then.
	lineTimeout = time.Minute
)

// notesMessage is a message with all notes.
type notesMessage struct {
	Type  string   `json:"type"`
	Notes []string `json:"notes"`
}

// pingMessage is a message without content.
type pingMessage struct {
	Type string `json:"type"`
}

// stream sends what the page shows, and its changes, until the client or the server ends it.
// Each line is a JSON object.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	v := s.live.join()
	if v == nil {
		writeError(w, &apiError{http.StatusServiceUnavailable, "Too many pages are open: close some of them."})
		return
	}
	defer s.live.leave(v)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return
	}
	out := &stream{writer: w, control: http.NewResponseController(w), live: s.live, viewer: v}
	_ = out.run(r.Context()) // an error means that the page is gone
}

// stream writes the lines of one stream. No lock is held while it waits for its client.
type stream struct {
	writer  http.ResponseWriter
	control *http.ResponseController
	live    *live
	viewer  *viewer
}

// run writes the snapshot and then changes. It returns when ctx ends, or when a line cannot be
// written.
func (s *stream) run(ctx context.Context) error {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	synced, changed := s.live.synced, chan struct{}(nil) // no changes before the snapshot
	for {
		ping.Reset(pingInterval)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ping.C:
			if err := s.write(pingMessage{"ping"}); err != nil {
				return err
			}
		case <-synced:
			if err := s.writeSnapshot(ctx); err != nil {
				return err
			}
			synced, changed = nil, s.viewer.changed
		case <-changed:
			wrote, err := s.writeChanges()
			if err != nil {
				return err
			}
			if !wrote {
				continue // what the signal was about was in the last delta
			}
			// What changes meanwhile is merged into the next delta.
			if err := sleep(ctx, deltaInterval); err != nil {
				return err
			}
		}
	}
}

// writeSnapshot writes all records, in parts.
func (s *stream) writeSnapshot(ctx context.Context) error {
	for {
		part := s.live.take(s.viewer, "snapshot")
		if part == nil {
			break
		}
		if err := s.write(part); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	notes, _ := s.live.takeNotes(s.viewer)
	return s.write(notesMessage{"synced", notes})
}

// writeChanges writes what changed, and returns whether anything did.
func (s *stream) writeChanges() (wrote bool, err error) {
	notes, wrote := s.live.takeNotes(s.viewer)
	if wrote {
		if err := s.write(notesMessage{"notes", notes}); err != nil {
			return false, err
		}
	}
	if delta := s.live.take(s.viewer, "delta"); delta != nil {
		return true, s.write(delta)
	}
	return wrote, nil
}

// write writes one line.
func (s *stream) write(line any) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(lineTimeout)) // a test's writer has none
	if err := json.NewEncoder(s.writer).Encode(line); err != nil {
		return err
	}
	return s.control.Flush()
}

// sleep waits, or returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
