package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Interchangeable are the versions of the API with the schema of this one: an object of
// one is an object of the others, but for its apiVersion. The CRDs convert them by
// strategy None. See docs/adr/0024-the-way-to-v1beta1.md.
var Interchangeable = []schema.GroupVersion{GroupVersion, {Group: GroupVersion.Group, Version: "v1beta1"}}

// DecodeProfile reads a SchedulingProfile that was stored as JSON under one of the
// Interchangeable versions. What it returns has the apiVersion of this one. It fails for
// every other kind and version: fields that this version does not have would be lost.
func DecodeProfile(text []byte) (*SchedulingProfile, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	known := func(v schema.GroupVersion) bool {
		return is.Kind == "SchedulingProfile" && is.APIVersion == v.String()
	}
	if !slices.ContainsFunc(Interchangeable, known) {
		return nil, fmt.Errorf("is apiVersion %q, kind %q, must be kind SchedulingProfile of %s", is.APIVersion, is.Kind, interchangeableNames())
	}
	p := &SchedulingProfile{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	p.APIVersion = GroupVersion.String()
	return p, nil
}

func interchangeableNames() string {
	var names []string
	for _, v := range Interchangeable {
		names = append(names, v.String())
	}
	return strings.Join(names, " or ")
}
