package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestWhatAnAttemptLogsNamesThePodAndTheProfile(t *testing.T) {
	var lines []string
	logger := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) },
		funcr.Options{Verbosity: 1, LogCaller: funcr.All})
	pod := fixture.Pod("shop/web").SchedulerName("batch").Obj()
	ctx := withPodLogger(klog.NewContext(context.Background(), logger.WithValues("epoch", 3)), pod)
	named := klog.LoggerWithValues(klog.LoggerWithName(klog.FromContext(ctx), "binding"), "node", "n1")
	for entry, log := range map[string]func(){
		`"msg"="plain" "epoch"=3 "pod"={"name"="web" "namespace"="shop"} "profile"="batch"`: func() { klog.FromContext(ctx).Info("plain") },
		`"msg"="failed" "error"="no"`: func() { klog.FromContext(ctx).Error(errors.New("no"), "failed") },
		`"node"="n1"`:                 func() { named.V(1).Info("named", "try", 1) },
		`"try"=2`:                     func() { named.WithCallDepth(0).V(1).Info("named", "try", 2) },
		"":                            func() { named.V(2).Info("too verbose") },
	} {
		lines = nil
		log()
		if entry == "" {
			if lines != nil {
				t.Errorf("logged %q above the verbosity", lines)
			}
			continue
		}
		if len(lines) != 1 {
			t.Fatalf("%s: logged %q", entry, lines)
		}
		for _, part := range []string{entry, `"profile"="batch"`, "pod_logger_test.go"} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("logged %s, which lacks %s", lines[0], part)
			}
		}
	}
	silent := klog.NewContext(context.Background(), logr.Discard())
	klog.FromContext(withPodLogger(silent, pod)).Info("nothing")
}
