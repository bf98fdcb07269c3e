package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"
)

// countingValue counts how often it is encoded.
type countingValue struct{ encoded int }

func (v *countingValue) MarshalLogObject(to zapcore.ObjectEncoder) error {
	v.encoded++
	to.AddString("name", "web")
	return nil
}

func TestValuesOfALoggerAreEncodedWhenItWrites(t *testing.T) {
	web := map[string]any{"name": "web"}
	for sentence, test := range map[string]struct {
		write   func(log logr.Logger)
		want    map[string]any
		encoded int
	}{
		"not where it writes nothing":        {func(logr.Logger) {}, nil, 0},
		"not for a line that is not read":    {func(log logr.Logger) { log.V(2).Info("bound") }, nil, 0},
		"not when it gets more values":       {func(log logr.Logger) { log.WithValues("node", "n1").WithName("binder") }, nil, 0},
		"for a line":                         {func(log logr.Logger) { log.Info("bound") }, map[string]any{"level": "info", "msg": "bound", "pod": web, "profile": "shop"}, 1},
		"for a line of a level that is read": {func(log logr.Logger) { log.V(1).Info("bound") }, map[string]any{"level": "debug", "msg": "bound", "pod": web, "profile": "shop"}, 1},
		"for a line with values of its own": {func(log logr.Logger) { log.Info("bound", "node", "n1") },
			map[string]any{"level": "info", "msg": "bound", "node": "n1", "pod": web, "profile": "shop"}, 1},
		"once for a logger that has more": {func(log logr.Logger) { log.WithValues("node", "n1").WithName("binder").Info("bound") },
			map[string]any{"level": "info", "logger": "binder", "msg": "bound", "node": "n1", "pod": web, "profile": "shop"}, 1},
		"for an error": {func(log logr.Logger) { log.Error(errors.New("broken"), "not bound") },
			map[string]any{"level": "error", "msg": "not bound", "error": "broken", "pod": web, "profile": "shop"}, 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			value := &countingValue{}
			test.write(newLogger(&out, 1).WithValues("profile", "shop").WithValues("pod", value))
			var got map[string]any
			if out.Len() > 0 {
				if err := json.Unmarshal(out.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				delete(got, "ts")
				delete(got, "stacktrace")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
			if value.encoded != test.encoded {
				t.Errorf("the value was encoded %d times, want %d", value.encoded, test.encoded)
			}
		})
	}
}
