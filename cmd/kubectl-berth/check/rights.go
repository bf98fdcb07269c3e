package check

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// rights asks the API server what this user may do of what each verb needs.
func (o *options) checkPermissions(ctx context.Context, r *report) {
	known := map[authorizationv1.ResourceAttributes]bool{}
	for _, v := range o.verbs {
		var lacks []string
		for _, right := range v.Permissions {
			for _, verb := range right.Verbs {
				may, err := o.isAllowed(ctx, known, resourceAttributes(right, verb, o.namespaceOf(right)))
				if err != nil {
					r.failed("rights", "%v", err)
					return
				}
				if !may {
					lacks = append(lacks, describePermission(right, verb, o.namespaceOf(right)))
				}
			}
		}
		switch {
		case len(v.Permissions) == 0:
			r.ok("rights", "%s: needs none", v.Name)
		case lacks == nil:
			r.ok("rights", "%s: you may do all that it needs", v.Name)
		default:
			r.note("rights", "%s: you may not %s", v.Name, strings.Join(lacks, "; nor "))
		}
	}
}

func (o *options) namespaceOf(right verb.Permission) string {
	switch right.Scope {
	case verb.InBerthNamespace:
		return o.cluster.BerthNamespace
	case verb.InNamespace:
		return o.cluster.Namespace
	}
	return ""
}

func resourceAttributes(right verb.Permission, verb, namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: verb, Group: right.Group, Resource: right.Resource, Namespace: namespace}
}

func (o *options) isAllowed(ctx context.Context, known map[authorizationv1.ResourceAttributes]bool, what authorizationv1.ResourceAttributes) (bool, error) {
	if may, asked := known[what]; asked {
		return may, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	if err := o.cluster.Client.Create(ctx, review); err != nil {
		return false, err
	}
	known[what] = review.Status.Allowed
	return review.Status.Allowed, nil
}

func describePermission(right verb.Permission, verb, namespace string) string {
	text := fmt.Sprintf("%s %s", verb, right.Name())
	if namespace != "" {
		text += " in namespace " + namespace
	}
	if right.Purpose != "" {
		text += ", " + right.Purpose
	}
	return text
}
