package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Interchangeable are the API versions whose schema equals this one's: an object of one
// is an object of the others, except for its apiVersion. The CRDs convert between them
// by strategy None. See docs/adr/0024-the-way-to-v1beta1.md.
var Interchangeable = []schema.GroupVersion{GroupVersion, {Group: GroupVersion.Group, Version: "v1beta1"}}

// DecodeProfile decodes a SchedulingProfile that was stored as JSON under one of the
// Interchangeable versions, and sets its apiVersion to this package's. It returns an
// error for every other kind and version, since fields that this version does not have
// would be lost.
func DecodeProfile(text []byte) (*SchedulingProfile, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	matches := func(v schema.GroupVersion) bool {
		return is.Kind == "SchedulingProfile" && is.APIVersion == v.String()
	}
	if !slices.ContainsFunc(Interchangeable, matches) {
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
