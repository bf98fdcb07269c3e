package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// plugin is what the code says about a plugin.
type plugin struct {
	name     string
	points   []framework.Point
	optional bool // only profiles that name it run it
	weight   int32
	// fields are the arguments, and defaults their default values as YAML; nil if it has none.
	fields   []string
	defaults []byte
	// reasons are the reasons with which it rejects a node, requeueEvents the events that
	// requeue its pods.
	reasons, requeueEvents []string
}

// readPlugins returns all built-in plugins; root is the folder of the module.
func readPlugins(ctx context.Context, root string) ([]plugin, error) {
	registry := plugins.InTree()
	wakes, err := requeueEventsOf(ctx, registry)
	if err != nil {
		return nil, err
	}
	var all []plugin
	for _, name := range registry.Names() {
		registration := registry[name]
		p := plugin{name: name, points: registration.Points, optional: !compile.IsDefault(name), requeueEvents: wakes[name]}
		for _, entry := range compile.DefaultPlugins() {
			if entry.Name == name && registration.Implements(framework.Score) {
				p.weight = max(entry.Weight, 1) // the default of compile
			}
		}
		if p.reasons, err = reasonsOf(root, registration); err != nil {
			return nil, err
		}
		if registration.NewArgs != nil {
			if err := p.readArguments(registration); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// requeueEventsOf returns the events that the plugins register with default arguments, by
// plugin.
func requeueEventsOf(ctx context.Context, registry framework.Registry) (map[string][]string, error) {
	all := &v1alpha1.SchedulingProfile{}
	all.Name, all.Spec.Plugins = "all", &v1alpha1.Plugins{}
	for _, name := range registry.Names() {
		if !compile.IsDefault(name) {
			all.Spec.Plugins.MultiPoint.Enabled = append(all.Spec.Plugins.MultiPoint.Enabled, v1alpha1.EnabledPlugin{Name: name})
		}
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: all, Registry: registry})
	if rejection != nil {
		return nil, fmt.Errorf("a profile with every plugin is rejected: %s", rejection.Message())
	}
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: blueprint, Registry: registry})
	if err != nil {
		return nil, err
	}
	registered, err := scheduler.Framework().RegisteredEvents(ctx)
	if err != nil {
		return nil, err
	}
	var hints []queue.Hint
	for _, hint := range registered {
		hints = append(hints, queue.Hint{Plugin: hint.Plugin, Event: hint.Event})
	}
	return profile.RequeueEvents(hints), nil
}

// readArguments sets the fields of the arguments and their defaults.
func (p *plugin) readArguments(registration framework.Registration) error {
	args := registration.NewArgs()
	if registration.Default != nil {
		registration.Default(args)
	}
	kind := reflect.TypeOf(args).Elem()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name != "" {
			p.fields = append(p.fields, name)
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(args)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	for _, empty := range []string{"apiVersion", "kind"} {
		delete(fields, empty)
	}
	p.defaults, err = yaml.Marshal(fields)
	return err
}

// formatVerbs replaces format verbs in a reason.
var formatVerbs = strings.NewReplacer("%q", "…", "%s", "…")

// reasonsOf returns the constants whose names begin with reason, in the folder of a Filter
// plugin.
func reasonsOf(root string, registration framework.Registration) ([]string, error) {
	if !registration.Implements(framework.Filter) {
		return nil, nil
	}
	name := strings.ToLower(registration.Name)
	if registration.Name == "NodeResourcesFit" {
		name = "noderesources"
	}
	files, err := filepath.Glob(filepath.Join(root, "scheduler", "plugins", name, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no code in scheduler/plugins/%s", registration.Name, name)
	}
	var reasons []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(code, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			for i := 0; ok && i < len(spec.Values); i++ {
				if literal, isText := spec.Values[i].(*ast.BasicLit); isText && strings.HasPrefix(spec.Names[i].Name, "reason") {
					text, _ := strconv.Unquote(literal.Value)
					if strings.HasSuffix(text, " ") {
						text += "…" // the name of a resource
					}
					reasons = append(reasons, formatVerbs.Replace(text))
				}
			}
			return true
		})
	}
	return slices.Compact(reasons), nil
}
