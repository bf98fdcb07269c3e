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

// Permission is a permission: a verb on a resource of a group, with its subresource, in one
// namespace or, where that is empty, in all; or on a non-resource URL.
type Permission struct {
	Role, Verb, Group, Resource, Namespace, Name, Path string
}

// String is the permission in words.
func (r Permission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s%s %s", r.Role, r.Verb, strings.Trim(r.Resource+"."+r.Group, "."), r.Path, r.Name))
}

// serves says whether a request needs the permission. A watch needs list, too: informers list
// where an API server does not support streaming lists.
func (r Permission) serves(e *Entry) bool {
	used := e.Verb == r.Verb || r.Path == "" && r.Verb == "list" && e.Verb == "watch"
	return !e.Forbidden() && used && r.concerns(e)
}

// checkedFor are resources of which no object is ever written: the API server checks the
// permission for another write (KEP-4817, granular authorization of a claim's status).
var checkedFor = map[string]string{"resourceclaims/binding": "resourceclaims/status"}

// concerns says whether a request is about the object of the permission.
func (r Permission) concerns(e *Entry) bool {
	if r.Path != "" {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return e.ObjectRef.Resource == "" && path == r.Path
	}
	if written, special := checkedFor[r.Resource]; special && e.ObjectRef.APIGroup == r.Group && written == e.resource() {
		return true
	}
	return e.ObjectRef.APIGroup == r.Group && e.resource() == r.Resource &&
		(r.Namespace == "" || e.ObjectRef.Namespace == r.Namespace) && (r.Name == "" || e.ObjectRef.Name == r.Name)
}

// Granted returns the permissions of one ServiceAccount through roles that name it.
func Granted(ctx context.Context, c client.Reader, namespace, account string) (rights []Permission, err error) {
	isAccount := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
	}
	var clusterBindings rbacv1.ClusterRoleBindingList
	var bindings rbacv1.RoleBindingList
	if err := c.List(ctx, &clusterBindings); err != nil {
		return nil, err
	}
	if err := c.List(ctx, &bindings); err != nil {
		return nil, err
	}
	for _, binding := range clusterBindings.Items {
		if !slices.ContainsFunc(binding.Subjects, isAccount) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := c.Get(ctx, client.ObjectKey{Name: binding.RoleRef.Name}, &role); err != nil {
			return nil, err
		}
		rights = append(rights, Expand(role.Name, "", role.Rules)...)
	}
	for _, binding := range bindings.Items {
		if !slices.ContainsFunc(binding.Subjects, isAccount) {
			continue
		}
		rules, err := rulesOf(ctx, c, binding.Namespace, binding.RoleRef)
		if err != nil {
			return nil, err
		}
		rights = append(rights, Expand(binding.Namespace+"/"+binding.RoleRef.Name, binding.Namespace, rules)...)
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

// Expand returns a permission for each verb and object of the rules of a role. namespace is empty for
// rules that are granted in all.
func Expand(role, namespace string, rules []rbacv1.PolicyRule) (rights []Permission) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				rights = append(rights, Permission{Role: role, Verb: verb, Path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						rights = append(rights, Permission{Role: role, Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name})
					}
				}
			}
		}
	}
	return rights
}

// Unused returns the permissions that no request needed.
func Unused(rights []Permission, entries []Entry) []Permission {
	return slices.DeleteFunc(slices.Clone(rights), func(r Permission) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return r.serves(&e) })
	})
}

// Missing returns the requests of an account that a role of its own permitted, and these
// permissions would not: each once, by Need, sorted.
func Missing(rights []Permission, entries []Entry) []string {
	var missing []string
	for i := range entries {
		e := &entries[i]
		if e.Forbidden() || !strings.Contains(e.Annotations["authorization.k8s.io/reason"], ` to ServiceAccount "`) {
			continue // what every account may do is not a permission of its own
		}
		if !slices.ContainsFunc(rights, func(r Permission) bool { return r.Verb == e.Verb && r.concerns(e) }) {
			missing = append(missing, e.RequiredPermission())
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Manifests reads the roles and bindings in a stream of YAML documents with other objects.
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
