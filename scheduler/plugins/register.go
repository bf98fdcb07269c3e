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

// Option adds to the registration of a plugin.
type Option func(*framework.Registration)

// Register describes one plugin. Pass typed nil pointers: plugin's type defines the
// extension points at which it runs, and args' type is the type that arguments are
// decoded into. An untyped nil means that the plugin takes no arguments, and
// (*runtime.Unknown)(nil) that the factory decodes them itself. For example:
//
//	operator.Main(
//		plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Coscheduling)(nil), (*config.CoschedulingArgs)(nil)))
func Register(name string, factory framework.Factory, plugin fwk.Plugin, args runtime.Object, options ...Option) framework.Registration {
	registration := framework.Registration{
		Name:        name,
		New:         factory,
		Points:      framework.PointsOf(plugin),
		GroupPoints: framework.GroupPointsOf(plugin),
		NewArgs:     newArgs(args),
	}
	registration.Package, registration.Type = framework.TypeOf(plugin)
	for _, option := range options {
		option(&registration)
	}
	return registration
}

// newArgs returns a function that returns an empty value of args' type; nil if args is
// nil.
func newArgs(args runtime.Object) func() runtime.Object {
	if args == nil {
		return nil
	}
	kind := reflect.TypeOf(args)
	if kind.Kind() != reflect.Pointer {
		// With returns an error: nothing can be decoded into a copy.
		return func() runtime.Object { return args }
	}
	return func() runtime.Object {
		object, _ := reflect.New(kind.Elem()).Interface().(runtime.Object)
		return object
	}
}

// WithDefault registers a function that sets the arguments which a profile leaves out.
// With WithScheme, Args is the versioned type, and the defaults of the scheme are set
// first.
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

// WithValidation registers a function that returns the invalid fields of defaulted
// arguments, as paths below path. Args is the type that the factory takes.
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

// With returns a registry with all plugins of registry and more, and does not change
// registry. It returns an error if a plugin cannot be used or its name is taken.
func With(registry framework.Registry, more ...framework.Registration) (framework.Registry, error) {
	merged := maps.Clone(registry)
	if merged == nil {
		merged = framework.Registry{}
	}
	for _, plugin := range more {
		if err := validateRegistration(plugin); err != nil {
			return nil, err
		}
		if _, exists := merged[plugin.Name]; exists {
			return nil, fmt.Errorf("plugin %q: is registered already, want a name of its own", plugin.Name)
		}
		merged[plugin.Name] = plugin
	}
	return merged, nil
}

func validateRegistration(plugin framework.Registration) error {
	switch {
	case plugin.Name == "":
		return fmt.Errorf("a plugin with points %v: the name is empty", plugin.Points)
	case plugin.New == nil:
		return fmt.Errorf("plugin %q: the factory is nil", plugin.Name)
	case plugin.Err != nil:
		return fmt.Errorf("plugin %q: %w", plugin.Name, plugin.Err)
	case len(plugin.Points)+len(plugin.GroupPoints) == 0:
		return fmt.Errorf("plugin %q: its type implements no extension point", plugin.Name)
	case plugin.NewArgs != nil && reflect.TypeOf(plugin.NewArgs()).Kind() != reflect.Pointer:
		return fmt.Errorf("plugin %q: its arguments are a %T, want a pointer to a struct", plugin.Name, plugin.NewArgs())
	}
	return nil
}

// ReadsTrimmedPods declares that the plugin reads only fields of pods and nodes that in-tree
// plugins read, too. Informers drop the others to save memory, unless a plugin is registered
// that does not declare this: docs/plugins.md lists them.
func ReadsTrimmedPods() Option {
	return func(registration *framework.Registration) { registration.ReadsTrimmedPods = true }
}

// NeedsUntrimmedPods reports whether registry holds a plugin that may read fields of
// pods which no in-tree plugin reads: one that is out of tree and does not declare
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
