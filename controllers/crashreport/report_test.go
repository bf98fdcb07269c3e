package crashreport

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Reports as the runtime writes them.
const (
	fatalInMethod = `fatal error: concurrent map writes

goroutine 41 [running]:
internal/runtime/maps.fatal({0x1c2a3b?, 0x0?})
	/usr/local/go/src/runtime/panic.go:1058 +0x18
example.com/gpu%2ev2/plugin.(*Gpu[...]).note(...)
	/src/gpu.go:17
example.com/gpu%2ev2/plugin.(*Gpu[...]).Filter.func1()
	/src/gpu.go:12 +0x4c
created by example.com/gpu%2ev2/plugin.(*Gpu[...]).Filter in goroutine 12
	/src/gpu.go:11 +0x6c

goroutine 1 [select]:
example.com/other.(*Other).Run(0xc0001)
	/src/other.go:9 +0x33
`
	panicInGoroutine = `panic: goes off

goroutine 18 [running]:
example.com/bomb.New.func1()
	/src/bomb.go:7 +0x25
created by time.goFunc
	/usr/local/go/src/time/sleep.go:215 +0x2d
`
	stackOverflow = `
runtime stack:
runtime.throw({0x4a3c5f?, 0x7ffd?})
	/usr/local/go/src/runtime/panic.go:1101 +0x48
runtime.newstack()
	/usr/local/go/src/runtime/stack.go:1207 +0x5fd

goroutine 7 gp=0xc000007 m=0 mp=0x5 [running]:
example.com/deep.walk({0xc0000a4018, 0x3}, 0x1)
	/src/deep.go:5 +0x1d
...additional frames elided...
created by main.main in goroutine 1
	/src/main.go:3 +0x1d
`
	fatalInCallee = `fatal error: concurrent map writes

goroutine 41 [running]:
example.com/gpu%2ev2/plugin.(*Gpu[...]).Filter(...)
	/src/gpu.go:12 +0x4c
example.com/preempt.(*Preempt).PostFilter(...)
	/src/preempt.go:40 +0x1d
`
	fatalInHelper = `goroutine 41 [running]:
internal/runtime/maps.fatal({0x1c2a3b?, 0x0?})
	/usr/local/go/src/runtime/panic.go:1058 +0x18
example.com/gpu%2ev2/plugin.note(...)
	/src/gpu.go:17

`
	sigquit = `SIGQUIT: quit
PC=0x47 m=0 sigcode=0

goroutine 7 [running]:
example.com/deep.walk(0x1)
	/src/deep.go:5 +0x1d
`
	panicInMain = `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47]

goroutine 1 [running]:
main.main()
	/src/main.go:3 +0x1d
`
)

func newRegistration(pkg, name string) framework.Registration {
	return framework.Registration{Package: pkg, Type: name}
}

func TestPluginsOnTheStack(t *testing.T) {
	registry := framework.Registry{
		"Gpu":     newRegistration("example.com/gpu.v2/plugin", "Gpu"),
		"Beside":  newRegistration("example.com/gpu.v2/plugin", "Beside"),
		"Other":   newRegistration("example.com/other", "Other"),
		"Deep":    newRegistration("example.com/deep", "Plugin"),
		"Deeper":  newRegistration("example.com/deep/deeper", "Plugin"),
		"Bomb":    newRegistration("example.com/bomb", "Plugin"),
		"Main":    newRegistration("main", "plugin"),
		"Preempt": {Package: "example.com/preempt", Type: "Preempt", InTree: true},
	}
	for name, c := range map[string]struct {
		text   string
		reason string
		want   []string
	}{
		"a method distinguishes plugins of one package":                    {fatalInMethod, "fatal error: concurrent map writes", []string{"Gpu"}},
		"a goroutine that a constructor started belongs to its package":    {panicInGoroutine, "panic: goes off", []string{"Bomb"}},
		"the goroutine of a stack overflow is found":                       {stackOverflow, "fatal error: stack overflow", []string{"Deep"}},
		"the main function belongs to no plugin":                           {panicInMain, "panic: runtime error: invalid memory address or nil pointer dereference", nil},
		"SIGQUIT is no crash":                                              {sigquit, "", nil},
		"an empty report has no reason":                                    {"", "", nil},
		"a built-in plugin that called the one that crashed is not blamed": {fatalInCallee, "fatal error: concurrent map writes", []string{"Gpu"}},
		"a built-in plugin alone is blamed":                                {strings.ReplaceAll(fatalInCallee, "example.com/gpu", "example.com/none"), "fatal error: concurrent map writes", []string{"Preempt"}},
		"a function of a package blames all its plugins":                   {fatalInHelper, "fatal error", []string{"Beside", "Gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(c.text)
			if diff := cmp.Diff([]any{c.reason, c.want}, []any{r.Reason, r.Plugins(registry)}); diff != "" {
				t.Errorf("(-want +got):\n%s\nof %q", diff, r.Functions)
			}
		})
	}
}

// overflowPlugin crashes its process with a fatal error, which cannot be recovered.
type overflowPlugin struct{}

func (overflowPlugin) Name() string { return "Deep" }

func (d overflowPlugin) Filter(ctx context.Context, state fwk.CycleState, pod any, node any) int {
	return 1 + d.Filter(ctx, state, pod, node)
}

// goroutinePlugin has a constructor that starts a goroutine which panics.
type goroutinePlugin struct{}

func (goroutinePlugin) Name() string { return "Beside" }

func newGoroutinePlugin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	go func() { panic("goes off") }()
	return goroutinePlugin{}, nil
}

// crashKindEnv and crashDirEnv are environment variables of a process that is to crash:
// how, and the folder of reports.
const crashKindEnv, crashDirEnv = "BERTH_TEST_CRASH", "BERTH_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	how := os.Getenv(crashKindEnv)
	if how == "" {
		os.Exit(m.Run())
	}
	debug.SetMaxStack(1 << 20)
	_, output, err := Open(os.Getenv(crashDirEnv), "of "+how)
	if err != nil {
		panic(err)
	}
	if err := debug.SetCrashOutput(output, debug.CrashOptions{}); err != nil {
		panic(err)
	}
	_ = output.Close()
	switch how {
	case "Deep":
		overflowPlugin{}.Filter(context.Background(), nil, nil, nil)
	case "Beside":
		_, _ = newGoroutinePlugin(context.Background(), nil, nil)
		select {}
	}
}

func TestTheNextProcessReadsTheCrashReport(t *testing.T) {
	registry := framework.Registry{}
	for _, plugin := range []fwk.Plugin{overflowPlugin{}, goroutinePlugin{}} {
		pkg, name := framework.TypeOf(plugin)
		registry[plugin.Name()] = framework.Registration{Package: pkg, Type: name}
	}
	with := registry["Beside"]
	with.New = newGoroutinePlugin
	registry["Beside"] = with
	for how, reason := range map[string]string{"Deep": "fatal error: stack overflow", "Beside": "panic: goes off"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), crashKindEnv+"="+how, crashDirEnv+"="+dir)
			if text, err := child.CombinedOutput(); err == nil {
				t.Fatalf("the process did not crash: %s", text)
			}
			d, output, err := Open(dir, "next")
			if err != nil || len(d.Reports) != 1 {
				t.Fatalf("found %+v, %v", d.Reports, err)
			}
			defer output.Close()
			r := d.Reports[0]
			want := []any{"of " + how, reason, []string{how}}
			if diff := cmp.Diff(want, []any{r.Process, r.Reason, r.Plugins(registry)}); diff != "" {
				t.Errorf("(-want +got):\n%s\nof %q", diff, r.Functions)
			}
		})
	}
}

func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestTheNumberAndSizeOfReportsAreBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		modified := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(-age)
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	write("README", "not a report", 0)
	write("crash-asked to end.txt", "", time.Minute)
	write("crash-large.txt", fatalInMethod+strings.Repeat("goroutine 1 [select]:\n", maxSize), time.Minute)
	for i, name := range []string{"a", "b", "c", "d"} {
		write("crash-"+name+".txt", fatalInMethod, time.Duration(i+2)*time.Minute)
		write("noted-"+name+"0.txt", fatalInMethod, time.Duration(i+2)*time.Minute)
	}
	d, output, err := Open(dir, "now")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	var found []string
	for _, r := range d.Reports {
		found = append(found, r.Process+": "+r.Reason)
	}
	const reason = ": fatal error: concurrent map writes"
	if want := []string{"large" + reason, "a" + reason, "b" + reason}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "crash-large.txt")); err != nil || info.Size() != maxSize {
		t.Errorf("the large report is %v, %v", info, err)
	}
	want := []string{"README", "crash-a.txt", "crash-b.txt", "crash-large.txt", "crash-now.txt", "noted-a0.txt", "noted-b0.txt", "noted-c0.txt"}
	if diff := cmp.Diff(want, fileNames(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := d.MarkRecorded(); err != nil {
		t.Fatal(err)
	}
	want = []string{"README", "crash-now.txt", "noted-a.txt", "noted-a0.txt", "noted-large.txt"}
	if diff := cmp.Diff(want, fileNames(t, dir)); diff != "" {
		t.Errorf("files after they were recorded (-want +got):\n%s", diff)
	}
}

func TestOpenFailsWithoutTheFolder(t *testing.T) {
	d, output, err := Open(filepath.Join(t.TempDir(), "missing"), "now")
	if err == nil || output != nil || len(d.Reports) != 0 {
		t.Errorf("found %+v, output %v, error %v", d.Reports, output, err)
	}
}
