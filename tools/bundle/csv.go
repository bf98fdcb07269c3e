package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// csv returns the base with everything that other files define.
func (s *source) csv(version, image string) (*v1alpha1.ClusterServiceVersion, error) {
	parsed, err := semver.Parse(version)
	if err != nil {
		return nil, fmt.Errorf("version %q: %w, want one such as 1.2.3", version, err)
	}
	csv := s.base.DeepCopy()
	csv.Name += ".v" + version
	csv.Spec.Version.Version = parsed
	csv.Spec.MinKubeVersion = s.minKubeVersion
	csv.Spec.Description = s.description
	csv.Spec.Icon = []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(s.icon), MediaType: "image/svg+xml"}}
	csv.Annotations["containerImage"] = image
	// Mirrors of a catalog copy the images that are listed here, by digest. The bundle in the
	// tree has a tag only, and no such image exists.
	if strings.Contains(image, "@sha256:") {
		csv.Spec.RelatedImages = []v1alpha1.RelatedImage{{Name: "manager", Image: image}}
	}
	if csv.Annotations["alm-examples"], err = examples(s.samples); err != nil {
		return nil, err
	}
	if csv.Spec.CustomResourceDefinitions.Owned, err = s.ownedCRDs(); err != nil {
		return nil, err
	}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec, err = s.strategy(image)
	return csv, err
}

// examples returns the samples for the annotation alm-examples.
func examples(samples []*unstructured.Unstructured) (string, error) {
	var objects []any
	for _, sample := range samples {
		objects = append(objects, sample.Object)
	}
	text, err := json.MarshalIndent(objects, "", "  ")
	return string(text), err
}

// strategy returns the Deployment, and the ClusterRoles of its service account.
//
// The Role in Berth's own namespace is not here, under permissions: for an operator of all
// namespaces, both generations of the lifecycle manager would grant it in every namespace,
// including access to Secrets. It is a plain object of the bundle instead.
func (s *source) strategy(image string) (v1alpha1.StrategyDetailsDeployment, error) {
	var strategy v1alpha1.StrategyDetailsDeployment
	for _, o := range s.objects {
		switch o.GetKind() {
		case "Deployment":
			d, err := convertTo[appsv1.Deployment](o)
			if err != nil {
				return strategy, err
			}
			for i := range d.Spec.Template.Spec.Containers {
				d.Spec.Template.Spec.Containers[i].Image = image
			}
			strategy.DeploymentSpecs = append(strategy.DeploymentSpecs,
				v1alpha1.StrategyDeploymentSpec{Name: d.Name, Label: d.Labels, Spec: d.Spec})
		case "ClusterRole":
			account, err := s.serviceAccountOf(o)
			if err != nil {
				return strategy, err
			}
			if account == "" {
				continue
			}
			role, err := convertTo[rbacv1.ClusterRole](o)
			if err != nil {
				return strategy, err
			}
			strategy.ClusterPermissions = append(strategy.ClusterPermissions,
				v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: role.Rules})
		}
	}
	return strategy, nil
}

// serviceAccountOf returns the ServiceAccount that the lifecycle manager grants a
// ClusterRole to; empty if it does not: the role is for users, or kube-controller-manager
// aggregates it, and a copy would stay empty.
func (s *source) serviceAccountOf(role *unstructured.Unstructured) (string, error) {
	if _, aggregated := role.Object["aggregationRule"]; aggregated {
		return "", nil
	}
	for _, o := range s.objects {
		if o.GetKind() != "ClusterRoleBinding" {
			continue
		}
		binding, err := convertTo[rbacv1.ClusterRoleBinding](o)
		if err != nil {
			return "", err
		}
		if binding.RoleRef.Name != role.GetName() {
			continue
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbacv1.ServiceAccountKind {
			return "", fmt.Errorf("ClusterRoleBinding %s: want one ServiceAccount as its subject", binding.Name)
		}
		return binding.Subjects[0].Name, nil
	}
	return "", nil
}
