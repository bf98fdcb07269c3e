package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Right is a verb on what a rule of a role names: a resource of a group, with its
// subresource, in one namespace or, where that is empty, in all; or a path that is no
// resource.
type Right struct {
	Role, Verb, Group, Resource, Namespace, Name, Path string
}

// String is the right as a person would name it.
func (r Right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s%s %s", r.Role, r.Verb, strings.Trim(r.Resource+"."+r.Group, "."), r.Path, r.Name))
}

// serves reports whether a request needs the right. Who watches needs to list, too:
// informers do it where an API server cannot begin a watch with what is there.
func (r Right) serves(e *Entry) bool {
	used := e.Verb == r.Verb || r.Path == "" && r.Verb == "list" && e.Verb == "watch"
	return !e.Forbidden() && used && r.concerns(e)
}

// concerns reports whether a request is about what the right is about.
func (r Right) concerns(e *Entry) bool {
	if r.Path != "" {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return e.ObjectRef.Resource == "" && path == r.Path
	}
	return e.ObjectRef.APIGroup == r.Group && e.resource() == r.Resource &&
		(r.Namespace == "" || e.ObjectRef.Namespace == r.Namespace) && (r.Name == "" || e.ObjectRef.Name == r.Name)
}

// Granted are the rights that roles give to one ServiceAccount by its name.
func Granted(ctx context.Context, c client.Reader, namespace, account string) (rights []Right, err error) {
	isHim := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
	}
	var wide rbacv1.ClusterRoleBindingList
	var narrow rbacv1.RoleBindingList
	if err := c.List(ctx, &wide); err != nil {
		return nil, err
	}
	if err := c.List(ctx, &narrow); err != nil {
		return nil, err
	}
	for _, binding := range wide.Items {
		if !slices.ContainsFunc(binding.Subjects, isHim) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := c.Get(ctx, client.ObjectKey{Name: binding.RoleRef.Name}, &role); err != nil {
			return nil, err
		}
		rights = append(rights, expand(role.Name, "", role.Rules)...)
	}
	for _, binding := range narrow.Items {
		if !slices.ContainsFunc(binding.Subjects, isHim) {
			continue
		}
		rules, err := rulesOf(ctx, c, binding.Namespace, binding.RoleRef)
		if err != nil {
			return nil, err
		}
		rights = append(rights, expand(binding.Namespace+"/"+binding.RoleRef.Name, binding.Namespace, rules)...)
	}
	return rights, nil
}

func rulesOf(ctx context.Context, c client.Reader, namespace string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "ClusterRole" {
		var role rbacv1.ClusterRole
		err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, &role)
		return role.Rules, err
	}
	var role rbacv1.Role
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &role)
	return role.Rules, err
}

// expand makes one Right of each verb on each thing that a rule names.
func expand(role, namespace string, rules []rbacv1.PolicyRule) (rights []Right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				rights = append(rights, Right{Role: role, Verb: verb, Path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						rights = append(rights, Right{Role: role, Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name})
					}
				}
			}
		}
	}
	return rights
}

// Unused are those rights that none of the requests needed.
func Unused(rights []Right, entries []Entry) []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return r.serves(&e) })
	})
}

// Missing are those requests of an account that were allowed by a role of its own, and
// would not be by these rights: each once, as Need names it, in order.
func Missing(rights []Right, entries []Entry) []string {
	var missing []string
	for i := range entries {
		e := &entries[i]
		if e.Forbidden() || !strings.Contains(e.Annotations["authorization.k8s.io/reason"], ` to ServiceAccount "`) {
			continue // what every account may do is no right of its own
		}
		if !slices.ContainsFunc(rights, func(r Right) bool { return r.Verb == e.Verb && r.concerns(e) }) {
			missing = append(missing, e.Need())
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Manifests reads the roles and bindings that a stream of YAML documents holds, among
// other objects.
func Manifests(text string) (client.Reader, error) {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []client.Object
	for document := range strings.SplitSeq(text, "\n---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", kind, err)
		}
		objects = append(objects, object.(client.Object))
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), nil
}
