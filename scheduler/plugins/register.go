package plugins

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Option adds to what is registered about a plugin.
type Option func(*framework.Registration)

// Register describes one plugin. Nil pointers stand for the types: plugin's
// says at which points it runs, args' is what its arguments are decoded into;
// an untyped nil says that it takes none, and (*runtime.Unknown)(nil) that the
// factory decodes them itself. For example:
//
//	operator.Main(
//		plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Coscheduling)(nil), (*config.CoschedulingArgs)(nil)))
func Register(name string, factory framework.Factory, plugin fwk.Plugin, args runtime.Object, options ...Option) framework.Registration {
	registration := framework.Registration{
		Name:    name,
		New:     factory,
		Points:  framework.PointsOf(plugin),
		NewArgs: newArgs(args),
	}
	registration.Package, registration.Type = framework.TypeOf(plugin)
	for _, option := range options {
		option(&registration)
	}
	return registration
}

// newArgs returns what makes empty values of args' type, or nil.
func newArgs(args runtime.Object) func() runtime.Object {
	if args == nil {
		return nil
	}
	kind := reflect.TypeOf(args)
	if kind.Kind() != reflect.Pointer {
		// With refuses it: nothing can be decoded into a copy.
		return func() runtime.Object { return args }
	}
	return func() runtime.Object {
		object, _ := reflect.New(kind.Elem()).Interface().(runtime.Object)
		return object
	}
}

// WithDefault registers what fills in the arguments that a profile leaves out.
// With WithScheme, Args is the versioned type, and the scheme fills in first.
func WithDefault[Args runtime.Object](fill func(Args)) Option {
	return func(registration *framework.Registration) {
		first := registration.Default
		registration.Default = func(args runtime.Object) {
			if first != nil {
				first(args)
			}
			if typed, ok := args.(Args); ok {
				fill(typed)
			}
		}
	}
}

// WithValidation registers what says what is wrong with defaulted arguments,
// with paths below path. Args is the type that the factory takes.
func WithValidation[Args runtime.Object](validate func(args Args, path *field.Path) field.ErrorList) Option {
	return func(registration *framework.Registration) {
		registration.Validate = func(args runtime.Object, path *field.Path) field.ErrorList {
			typed, ok := args.(Args)
			if !ok {
				return field.ErrorList{field.InternalError(path, fmt.Errorf("is a %T, want a %T", args, typed))}
			}
			return validate(typed, path)
		}
	}
}

// With returns a registry that holds all of registry and more; registry stays
// as it is. The error names a plugin that cannot be used or is there already.
func With(registry framework.Registry, more ...framework.Registration) (framework.Registry, error) {
	joined := maps.Clone(registry)
	if joined == nil {
		joined = framework.Registry{}
	}
	for _, plugin := range more {
		if err := validateRegistration(plugin); err != nil {
			return nil, err
		}
		if _, taken := joined[plugin.Name]; taken {
			return nil, fmt.Errorf("plugin %q: is registered already, want a name of its own", plugin.Name)
		}
		joined[plugin.Name] = plugin
	}
	return joined, nil
}

func validateRegistration(plugin framework.Registration) error {
	switch {
	case plugin.Name == "":
		return fmt.Errorf("a plugin with points %v: the name is empty", plugin.Points)
	case plugin.New == nil:
		return fmt.Errorf("plugin %q: the factory is nil", plugin.Name)
	case plugin.Err != nil:
		return fmt.Errorf("plugin %q: %w", plugin.Name, plugin.Err)
	case len(plugin.Points) == 0:
		return fmt.Errorf("plugin %q: its type implements no extension point", plugin.Name)
	case plugin.NewArgs != nil && reflect.TypeOf(plugin.NewArgs()).Kind() != reflect.Pointer:
		return fmt.Errorf("plugin %q: its arguments are a %T, want a pointer to a struct", plugin.Name, plugin.NewArgs())
	}
	return nil
}

// ReadsTrimmedPods declares that the plugin reads of pods only what built-in plugins
// read. It must not read the command, args, env, envFrom, lifecycle and probes of
// containers, their statuses beyond the resources, and the statuses of ephemeral
// containers: informers drop those, which saves memory. They are kept while a plugin is
// registered that does not declare it.
func ReadsTrimmedPods() Option {
	return func(registration *framework.Registration) { registration.ReadsTrimmedPods = true }
}

// NeedWholePods reports whether registry holds a plugin that may read parts of pods
// that no built-in plugin reads: one that is not built in and does not declare
// ReadsTrimmedPods.
func NeedsUntrimmedPods(registry framework.Registry) bool {
	inTree := InTree()
	for name, registration := range registry {
		if _, builtIn := inTree[name]; !builtIn && !registration.ReadsTrimmedPods {
			return true
		}
	}
	return false
}
