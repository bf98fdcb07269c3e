package framework

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CallIn is the call of one of f's plugins that a goroutine is in, innermost
// first: where one plugin asks another, the other. It is read from the
// goroutine's stack, as runtime.Stack prints it, so that nobody has to note each
// call of plugins that are built in. Point is the name of the plugin's outermost
// exported method there. It reports false when the goroutine is in none.
func (f *Framework) CallInStack(stack string) (call Call, found bool) {
	methods := make(map[string]string, len(f.plugins)) // what a method's symbol begins with → plugin
	for _, plugin := range f.plugins {
		methods[methodPrefix(plugin)] = plugin.Name()
	}
	for line := range strings.Lines(stack) {
		name, method := pluginMethodIn(methods, line)
		switch {
		case name == "":
			continue
		case found && name != call.Plugin:
			return call, true
		}
		if first, _ := utf8.DecodeRuneInString(method); unicode.IsUpper(first) || !found {
			call = Call{Plugin: name, Point: method}
		}
		found = true
	}
	return call, found
}

// methodIn is the plugin whose method a line of a stack is about.
func pluginMethodIn(methods map[string]string, line string) (plugin, method string) {
	for symbol, name := range methods {
		if rest, is := strings.CutPrefix(line, symbol); is {
			method, _, _ = strings.Cut(rest, "(")
			method, _, _ = strings.Cut(method, ".") // a closure
			return name, strings.TrimSpace(method)
		}
	}
	return "", ""
}

// methodsOf is what the symbol of each method of a plugin begins with.
func methodPrefix(plugin any) string {
	t := reflect.TypeOf(plugin)
	if t.Kind() == reflect.Pointer {
		return t.Elem().PkgPath() + ".(*" + t.Elem().Name() + ")."
	}
	return t.PkgPath() + "." + t.Name() + "."
}
