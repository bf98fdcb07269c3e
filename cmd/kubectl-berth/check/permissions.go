package check

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// checkPermissions asks the API server whether this user has the permissions of each verb.
func (o *options) checkPermissions(ctx context.Context, r *report) {
	known := map[authorizationv1.ResourceAttributes]bool{}
	for _, v := range o.verbs {
		var missing []string
		for _, permission := range v.Permissions {
			for _, apiVerb := range permission.Verbs {
				allowed, err := o.isAllowed(ctx, known, resourceAttributes(permission, apiVerb, o.namespaceOf(permission)))
				if err != nil {
					r.failed("permissions", "%v", err)
					return
				}
				if !allowed {
					missing = append(missing, describePermission(permission, apiVerb, o.namespaceOf(permission)))
				}
			}
		}
		switch {
		case len(v.Permissions) == 0:
			r.ok("permissions", "%s: needs none", v.Name)
		case missing == nil:
			r.ok("permissions", "%s: you have all that it needs", v.Name)
		default:
			r.note("permissions", "%s: you may not %s", v.Name, strings.Join(missing, ", "))
		}
	}
}

func (o *options) namespaceOf(permission verb.Permission) string {
	switch permission.Scope {
	case verb.InBerthNamespace:
		return o.cluster.BerthNamespace
	case verb.InNamespace:
		return o.cluster.Namespace
	}
	return ""
}

func resourceAttributes(permission verb.Permission, apiVerb, namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: apiVerb, Group: permission.Group, Resource: permission.Resource, Namespace: namespace}
}

func (o *options) isAllowed(ctx context.Context, known map[authorizationv1.ResourceAttributes]bool, what authorizationv1.ResourceAttributes) (bool, error) {
	if allowed, ok := known[what]; ok {
		return allowed, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	if err := o.cluster.Client.Create(ctx, review); err != nil {
		return false, err
	}
	known[what] = review.Status.Allowed
	return review.Status.Allowed, nil
}

func describePermission(permission verb.Permission, apiVerb, namespace string) string {
	text := fmt.Sprintf("%s %s", apiVerb, permission.Name())
	if namespace != "" {
		text += " in namespace " + namespace
	}
	if permission.Purpose != "" {
		text += " (" + permission.Purpose + ")"
	}
	return text
}
