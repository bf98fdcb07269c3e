package plugins

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/scheduler/framework"
)

// WithScheme decodes arguments by scheme, as kube-scheduler decodes those of plugins
// whose configuration API is registered in its scheme. The factory and WithValidation
// still get the type that Register was given: usually the internal type, which has no
// JSON names. Arguments of profiles are decoded into the type of the same kind in the
// version that scheme prefers, defaulted by scheme, and converted. A profile's hash
// covers the defaulted arguments of that version.
//
// Plugins may share scheme. It must not change afterwards. With returns an error when
// scheme does not know the type or cannot convert it.
//
//	plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Coscheduling)(nil), (*config.CoschedulingArgs)(nil),
//		plugins.WithScheme(scheme.Scheme))
func WithScheme(scheme *runtime.Scheme) Option {
	return func(registration *framework.Registration) {
		if err := useScheme(registration, scheme); err != nil {
			registration.Err = fmt.Errorf("WithScheme: %w", err)
		}
	}
}

func useScheme(registration *framework.Registration, scheme *runtime.Scheme) error {
	switch {
	case scheme == nil:
		return errors.New("the scheme is nil")
	case registration.NewArgs == nil:
		return errors.New("the plugin was registered without a type of arguments, want the one that its factory takes")
	}
	newFactoryArgs := registration.NewArgs
	kind, err := versionedKind(scheme, newFactoryArgs())
	if err != nil {
		return err
	}
	furtherDefault := registration.Default
	registration.NewArgs = func() runtime.Object {
		object, err := scheme.New(kind)
		if err != nil {
			return nil // versionedKind checked that scheme has the kind
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		return object
	}
	registration.Default = func(args runtime.Object) {
		scheme.Default(args)
		if furtherDefault != nil {
			furtherDefault(args)
		}
	}
	if factoryKind, _, err := scheme.ObjectKinds(newFactoryArgs()); err == nil && slices.Contains(factoryKind, kind) {
		return nil
	}
	registration.Convert = func(args runtime.Object) (runtime.Object, error) {
		into := newFactoryArgs()
		// Generated conversions share what they can: a plugin that changes its
		// arguments must not change what the next instance gets.
		if err := scheme.Convert(args.DeepCopyObject(), into, nil); err != nil {
			return nil, fmt.Errorf("cannot be converted from %s to %T: %w", kind.GroupVersion(), into, err)
		}
		return into, nil
	}
	empty := registration.NewArgs()
	registration.Default(empty)
	_, err = registration.Convert(empty)
	return err
}

// versionedKind returns the kind of args in the version of its group that scheme
// prefers; the kind of args itself if that has a version.
func versionedKind(scheme *runtime.Scheme, args runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(args)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("the scheme does not know %T", args)
	}
	for _, kind := range kinds {
		if kind.Version != runtime.APIVersionInternal {
			return kind, nil
		}
	}
	factoryKind := kinds[0]
	for _, version := range scheme.PrioritizedVersionsForGroup(factoryKind.Group) {
		if kind := version.WithKind(factoryKind.Kind); scheme.Recognizes(kind) {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the scheme has no version of %s, which %T is the internal type of", factoryKind.GroupKind(), args)
}
