package command_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/test/support/command"
)

func TestACommandReportsHowItEnded(t *testing.T) {
	type end struct {
		Code     int
		Out, Err string
	}
	for name, c := range map[string]struct {
		args []string
		want end
	}{
		"success is the last line":      {nil, end{Out: "ten pods\nsoak: ok\n"}},
		"an error is written to stderr": {[]string{"--fail"}, end{1, "", "soak: failed: a pod is lost\n"}},
		"an unknown flag":               {[]string{"--pds"}, end{1, "", "soak: failed: unknown flag: --pds\n"}},
		"an unexpected argument":        {[]string{"now"}, end{1, "", "soak: failed: unexpected argument \"now\": only flags are taken\n"}},
		"help":                          {[]string{"--help"}, end{}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := command.Execute(t.Context(), "soak", func(_ context.Context, args []string, out io.Writer) error {
				f := command.Flags("soak")
				f.SetOutput(io.Discard)
				fail := f.Bool("fail", false, "lose a pod")
				if err := command.Parse(f, args); err != nil {
					return err
				}
				if *fail {
					return errors.New("a pod is lost")
				}
				_, err := io.WriteString(out, "ten pods\n")
				return err
			}, command.Streams{Args: c.args, Out: &out, Err: &errs})
			if diff := cmp.Diff(c.want, end{code, out.String(), errs.String()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
