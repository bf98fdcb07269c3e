package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/leadership"
)

// write writes batches until found is nothing left to write.
func (j *Journal) write() {
	notLeading := false
	for {
		j.mu.Lock()
		if len(j.commits) == 0 && !j.dirty {
			j.writing = false
			j.mu.Unlock()
			if j.failed.Load() && !notLeading {
				j.options.Clock.AfterFunc(probeInterval, j.probe)
			}
			return
		}
		wait := j.lastTry.Add(writeInterval).Sub(j.options.Clock.Now())
		j.mu.Unlock()
		if wait > 0 {
			<-j.options.Clock.After(wait)
		}
		err := j.writeOnce()
		j.report(err)
		notLeading = errors.Is(err, leadership.ErrNotLeading)
		switch {
		case err == nil, errors.As(err, new(*conflictError)):
		case isPermanent(err):
			j.failCommits(err)
		default:
			<-j.options.Clock.After(retryPause)
		}
	}
}

// probe writes the journal if nothing was written since a write failed: otherwise an idle
// journal would be reported as one that cannot be written until the next Binding needs it.
// After a write that was not sent, since this process may not lead any more, there is none.
func (j *Journal) probe() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.failed.Load() || j.writing {
		return
	}
	j.dirty, j.writing = true, true
	j.options.Go(j.write)
}

// report counts a write, and logs when writes begin to fail and when they succeed
// again.
func (j *Journal) report(err error) {
	var moved *conflictError
	switch {
	case err == nil:
		writes.WithLabelValues("written").Inc()
		available.Set(1)
		if j.failed.CompareAndSwap(true, false) {
			j.options.Log.Info("The journal of Bindings is written again", "configMap", Name)
		}
	case errors.As(err, &moved):
		writes.WithLabelValues("conflict").Inc()
	case errors.Is(err, leadership.ErrNotLeading):
		// It was not sent, which says nothing about the journal.
		writes.WithLabelValues("error").Inc()
	default:
		writes.WithLabelValues("error").Inc()
		available.Set(0)
		if !j.failed.Swap(true) {
			j.options.Log.Error(err, "The journal of Bindings cannot be written: pods that carry PodScheduled=False are not bound until it can", "configMap", Name)
		}
	}
}

// writeOnce writes the journal and completes the commits that the write holds. It
// reads the journal first if its version is not known.
func (j *Journal) writeOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	j.mu.Lock()
	j.lastTry = j.options.Clock.Now()
	j.mu.Unlock()
	if err := j.readVersion(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	c, version := j.nextContent(), j.resourceVersion
	batch, dirty := j.commits, j.dirty
	j.dirty = false
	j.mu.Unlock()
	written, err := j.putContent(ctx, version, c)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.versionKnown, j.dirty = false, j.dirty || dirty && !isPermanent(err)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && version != "" {
			// An earlier write of this process arrived late, or another process wrote: the
			// next read finds out.
			return &conflictError{err}
		}
		return err
	}
	j.resourceVersion, j.stored, j.takenOver, j.versionKnown = written, c.pods, true, true
	j.completeCommits(batch)
	if c.closed && j.closing != nil {
		close(j.closing)
		j.closing = nil
	}
	return nil
}

// completeCommits completes the commits of a batch that was written. The caller holds
// j.mu.
func (j *Journal) completeCommits(batch []*commit) {
	for _, c := range batch {
		if !j.stored.Has(c.uid) {
			c.err = fmt.Errorf("%w: the pod was released meanwhile, because it was deleted or has a node", ErrNotCommitted)
		}
		close(c.done)
	}
	j.commits = removeCommits(j.commits, func(c *commit) bool {
		return slices.Contains(batch, c)
	})
}

// nextContent returns what the next write says. The caller holds j.mu.
func (j *Journal) nextContent() content {
	c := j.own
	c.pods = j.own.pods.Union(j.inherited)
	return c
}

// putContent writes c over the given version and returns the new one. Without a
// version it creates the journal.
func (j *Journal) putContent(ctx context.Context, version string, c content) (string, error) {
	object := toConfigMap(Name, version, c)
	if version == "" {
		created, err := j.options.Client.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("creating the ConfigMap %s: %w", Name, err)
		}
		return created.ResourceVersion, nil
	}
	updated, err := j.options.Client.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return "", fmt.Errorf("updating the ConfigMap %s: %w", Name, err)
	}
	return updated.ResourceVersion, nil
}

// readVersion reads which version the next write has to replace, unless that is
// known.
func (j *Journal) readVersion(ctx context.Context) error {
	j.mu.Lock()
	known, taken := j.versionKnown, j.takenOver
	j.mu.Unlock()
	if known {
		return nil
	}
	version, found, err := j.read(ctx)
	malformed := errors.As(err, new(*malformedError))
	switch {
	case err != nil && !malformed:
		return err
	case taken && (malformed || found != nil && found.holder != j.options.Holder):
		// The journal was deleted or edited, or another process leads. The next leader
		// does not find this leader's epoch and fences every pod. To write over the
		// journal now might destroy what that leader relies on.
		return errSuperseded
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resourceVersion, j.versionKnown, j.stored = version, true, sets.New[types.UID]()
	if found != nil && found.holder == j.options.Holder {
		j.stored = found.pods
	}
	return nil
}

// read returns the resource version and the content of the journal by a quorum read,
// "" and nil where found is none.
func (j *Journal) read(ctx context.Context) (version string, c *content, err error) {
	object, err := j.options.Client.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading the ConfigMap %s: %w", Name, err)
	}
	parsed, err := fromConfigMap(object)
	if err != nil {
		return object.ResourceVersion, nil, &malformedError{err}
	}
	return object.ResourceVersion, &parsed, nil
}

// failCommits fails the commits that wait. Other changes are part of the next write.
func (j *Journal) failCommits(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dirty = false
	failed := j.commits
	j.commits = nil
	for _, c := range failed {
		c.err = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		close(c.done)
	}
	for _, c := range failed {
		j.release(c.uid)
	}
}

func removeCommits(commits []*commit, which func(*commit) bool) []*commit {
	return slices.DeleteFunc(slices.Clone(commits), which)
}

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

var (
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_binding_journal_writes_total",
		Help: "[ALPHA] Number of writes of the journal of Bindings, by result: written, conflict or error. Many pods share one write.",
	}, []string{"result"})
	available = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_binding_journal_available",
		Help: "[ALPHA] 1 while the leader can write the journal of Bindings, else 0. While it is 0, either pods that carry PodScheduled=False are not bound, or the next leader has to fence every pod.",
	})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{writes, available} }
