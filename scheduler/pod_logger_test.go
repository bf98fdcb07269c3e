package scheduler

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/test/support/fixture"
)

// What is logged about a pod is what a logger with its values logs.
func TestLinesAboutAPodNameItAndItsProfile(t *testing.T) {
	pod := fixture.Pod("shop/web").SchedulerName("batch").Obj()
	for sentence, write := range map[string]func(log logr.Logger){
		"a line":                             func(log logr.Logger) { log.Info("bound", "node", "n1") },
		"an error":                           func(log logr.Logger) { log.Error(errors.New("broken"), "not bound") },
		"a logger with more values":          func(log logr.Logger) { log.WithValues("node", "n1").Info("bound") },
		"a logger with a name":               func(log logr.Logger) { log.WithName("binder").Info("bound") },
		"a line of a level that is not read": func(log logr.Logger) { log.V(3).Info("bound") },
		"a line of a level that is read":     func(log logr.Logger) { log.V(1).Info("bound") },
		"a line of a helper":                 func(log logr.Logger) { logDeeper(log) },
	} {
		t.Run(sentence, func(t *testing.T) {
			lines := func(add func(log logr.Logger) logr.Logger) (written []string) {
				log := funcr.New(func(prefix, args string) { written = append(written, prefix+" "+args) }, funcr.Options{Verbosity: 1, LogCaller: funcr.All})
				write(add(log))
				return written
			}
			want := lines(func(log logr.Logger) logr.Logger {
				return log.WithValues("pod", klog.KObj(pod), "profile", "batch")
			})
			got := lines(func(log logr.Logger) logr.Logger {
				return klog.FromContext(withPodLogger(klog.NewContext(t.Context(), log), pod))
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
	if ctx := klog.NewContext(t.Context(), logr.Discard()); withPodLogger(ctx, pod) != ctx {
		t.Error("a logger that writes nothing is replaced")
	}
}

// logDeeper is a helper, whose caller is what the line is about.
func logDeeper(log logr.Logger) { log.WithCallDepth(1).Info("bound") }
