package crashreport

import (
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Report is what is known of a process that crashed.
type Report struct {
	// Process names it, and Time is when it crashed.
	Process string
	Time    time.Time
	// Reason is what it died of, such as "panic: goes off"; empty where it did not
	// crash, as after SIGQUIT.
	Reason string
	// Functions are those on the stack of the goroutine that crashed, the innermost
	// first; the last one may be the one that started the goroutine.
	Functions []string
}

var (
	// reasons say what a process died of. The line of a fatal error is not in every
	// report: the runtime writes it to standard error alone.
	reasonPattern = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |SIG[A-Z]+: ).*$`)
	// crashed begins the stack of the goroutine that crashed: the only one that runs.
	crashedGoroutinePattern = regexp.MustCompile(`(?m)^goroutine \d+ [^\n]*\[running[^\n]*\]:$`)
	// function is a line that names a function: "pkg.(*Type).Method(0x1, ...)".
	functionPattern = regexp.MustCompile(`^(?:created by )?([^\s(]+(?:\(\*[^\s()]+\)[^\s()]*)*)(?:\(.*\)| in goroutine \d+)?$`)
)

// parse reads the text that the runtime writes.
func parse(text string) Report {
	r := Report{}
	begin := crashedGoroutinePattern.FindStringIndex(text)
	if begin == nil {
		return r
	}
	head := text[:begin[0]]
	switch reason := reasonPattern.FindString(head); {
	case strings.HasPrefix(reason, "SIGQUIT"):
		return r
	case reason != "":
		r.Reason = reason
	case strings.Contains(head, "runtime.newstack("):
		r.Reason = "fatal error: stack overflow"
	default:
		r.Reason = "fatal error"
	}
	stack, _, _ := strings.Cut(strings.TrimPrefix(text[begin[1]:], "\n"), "\n\n")
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "\t") {
			continue // where the function is
		}
		if match := functionPattern.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			r.Functions = append(r.Functions, unescape(match[1]))
		}
	}
	return r
}

// unescape undoes how the linker writes the last part of a package's path.
func unescape(function string) string {
	return strings.NewReplacer("%2e", ".", "%22", `"`, "%25", "%").Replace(function)
}

// Plugins are the plugins of registry that are on the stack, in alphabetical order:
// those of whose type a method is there; where there is none, those whose
// constructor is; and where that is not either, those of whose package any function
// is. So plugins that share a package are told apart where the stack does it. A
// built-in plugin beside one that is not, such as DefaultPreemption while it asks
// the filters, is there as who called it, and is left out.
func (r Report) Plugins(registry framework.Registry) []string {
	for _, is := range []func(framework.Registration, string) bool{isMethod, isConstructor, isInPackage} {
		var found []string
		for name, plugin := range registry {
			if slices.ContainsFunc(r.Functions, func(function string) bool { return is(plugin, function) }) {
				found = append(found, name)
			}
		}
		builtIn := func(name string) bool { return registry[name].InTree }
		if foreign := slices.DeleteFunc(slices.Clone(found), builtIn); len(foreign) > 0 && !fault.CallersBlamed {
			found = foreign
		}
		if found != nil {
			slices.Sort(found)
			return found
		}
	}
	return nil
}

// isMethod says whether a function is a method of the plugin's type, or is made in
// one.
func isMethod(plugin framework.Registration, function string) bool {
	rest, own := strings.CutPrefix(function, plugin.Package+".")
	if !own || plugin.Type == "" {
		return false
	}
	receiver, _, method := strings.Cut(strings.TrimPrefix(rest, "(*"), ".")
	receiver, _, _ = strings.Cut(strings.TrimSuffix(receiver, ")"), "[")
	return method && receiver == plugin.Type
}

// isConstructor says whether a function is the plugin's constructor, or is made in
// it.
func isConstructor(plugin framework.Registration, function string) bool {
	if plugin.New == nil {
		return false
	}
	f := runtime.FuncForPC(reflect.ValueOf(plugin.New).Pointer())
	if f == nil {
		return false
	}
	name := unescape(f.Name())
	return function == name || strings.HasPrefix(function, name+".")
}

// isOfPackage says whether a function is of the plugin's package. In the package main
// the program itself is, too.
func isInPackage(plugin framework.Registration, function string) bool {
	rest, own := strings.CutPrefix(function, plugin.Package+".")
	if !own || plugin.Package == "" || strings.Contains(rest, "/") {
		return false
	}
	return plugin.Package != "main" || rest != "main" && !strings.HasPrefix(rest, "main.") && !strings.HasPrefix(rest, "init")
}
