// Package crd holds the generated CustomResourceDefinitions, for whoever wants
// to know without an API server what one would refuse.
package crd

import "embed"

// Bases holds bases/*.yaml, one CustomResourceDefinition each.
//
//go:embed bases/*.yaml
var Bases embed.FS
