package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// endTimeout bounds how long a test waits for a verb to end. The client of discovery would wait for
// an answer for 32 seconds.
const endTimeout = 15 * time.Second

// runsMain is set where the test's program runs main with its arguments.
const runsMain = "BERTH_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// silentAPIServer is an API server that answers no request, in a kubeconfig of its own.
type silentAPIServer struct {
	kubeconfig, cacheDir string
	// asked is closed upon the first request.
	asked chan struct{}
}

func newSilentAPIServer(t *testing.T) *silentAPIServer {
	s := &silentAPIServer{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), cacheDir: t.TempDir(), asked: make(chan struct{})}
	first := sync.OnceFunc(func() { close(s.asked) })
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		first()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	text := `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], contexts: [{name: c, context: {cluster: c}}]}`
	if err := os.WriteFile(s.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a verb until it ends. It returns what the verb printed and its error.
func (s *silentAPIServer) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newRootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	// cobra's command that completes reads the flags of the command line that it completes.
	at := len(args)
	if args[0] == cobra.ShellCompRequestCmd {
		at = 1
	}
	flags := []string{"--kubeconfig", s.kubeconfig, "--cache-dir", s.cacheDir}
	cmd.SetArgs(append(append(append([]string{}, args[:at]...), flags...), args[at:]...))
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestAnInterruptEndsAVerbWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	for name, args := range map[string][]string{
		"a list":          {"profiles"},
		"a watch":         {"decisions", "--watch"},
		"the version":     {"version"},
		"a check":         {"check"},
		"a pod":           {"explain", "web"},
		"the page":        {"ui"},
		"a completion":    {cobra.ShellCompRequestCmd, "profiles", ""},
		"a flag's values": {cobra.ShellCompRequestCmd, "profiles", "--namespace", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSilentAPIServer(t)
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				_, _ = s.run(ctx, args...)
				close(ended)
			}()
			select {
			case <-s.asked:
			case <-time.After(endTimeout):
				t.Fatal("the API server is not asked")
			}
			interrupt()
			select {
			case <-ended:
			case <-time.After(endTimeout):
				t.Errorf("it runs %v after it was interrupted", endTimeout)
			}
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerIsNamed(t *testing.T) {
	for _, name := range []string{"profiles", "version"} {
		t.Run(name, func(t *testing.T) {
			_, err := newSilentAPIServer(t).run(t.Context(), name, "--request-timeout", "100ms")
			if err == nil || !strings.HasPrefix(err.Error(), "cannot reach the API server: ") || !strings.HasSuffix(err.Error(), "; check --context") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A read of standard input does not end with the context of the verb.
func TestASecondInterruptEndsTheProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), endTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "lint", "--offline", "-f", "-")
	cmd.Env = append(os.Environ(), runsMain+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe keeps: the process reads when this is written.
	if _, err := io.WriteString(in, strings.Repeat("#\n", 1<<18)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil || verb.ExitCode(err) == verb.ExitOK {
				t.Errorf("it ended with %v, %v", err, ctx.Err())
			}
			return
		case <-again.C:
			_ = cmd.Process.Signal(os.Interrupt) // an error means that it has ended
		}
	}
}
