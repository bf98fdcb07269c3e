package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/check"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

func runRoot(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := newRootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheHelpOfEveryVerbListsPermissionsAndExitCodes(t *testing.T) {
	all := append([]verb.Verb{check.Verb}, checkedVerbs...)
	help := runRoot(t, "--help")
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			if !strings.Contains(help, "\n  "+v.Name+" ") {
				t.Errorf("kubectl berth --help does not list it:\n%s", help)
			}
			own := runRoot(t, v.Name, "--help")
			for _, want := range []string{"kubectl berth " + v.Name, "Required permissions:", "Exit codes:\n  0  ", "\n  2  "} {
				if !strings.Contains(own, want) {
					t.Errorf("its help does not contain %q:\n%s", want, own)
				}
			}
			if len(v.Examples) < 2 {
				t.Errorf("%d examples, want at least 2", len(v.Examples))
			}
			for _, r := range v.Permissions {
				if !strings.Contains(own, r.Name()) {
					t.Errorf("its help does not contain %s", r.Name())
				}
			}
		})
	}
}

// A name in a file is such a text.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	var out, errOut bytes.Buffer
	in := strings.NewReader("{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: \"a\\e[2Jb\"}}")
	cmd := newRootCommand(genericiooptions.IOStreams{In: in, Out: &out, ErrOut: &errOut})
	cmd.SetArgs([]string{"lint", "-f", "-", "--offline"})
	err := cmd.ExecuteContext(t.Context())
	printed := out.String() + errOut.String()
	if strings.Contains(printed, "\x1b") || !strings.Contains(printed, "a^[[2Jb") {
		t.Errorf("printed %q (%v)", printed, err)
	}
}

func TestCheckKnowsThePermissionsOfEveryVerb(t *testing.T) {
	known := map[string]bool{check.Verb.Name: true, "help": true, "completion": true}
	for _, v := range checkedVerbs {
		known[v.Name] = true
	}
	for _, c := range newRootCommand(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		if !known[c.Name()] {
			t.Errorf("check does not know the permissions of %s", c.Name())
		}
	}
}
