{{- define "type" -}}
{{- $type := . -}}
{{- if and (markdownShouldRenderType $type) (or $type.Members $type.IsAlias) }}
## {{ $type.Name }}

{{ $type.Doc }}
{{ if $type.References }}
In: {{ range $i, $r := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $r }}{{ end }}.
{{ end }}
{{- if and $type.IsAlias (not $type.EnumValues) }}
A {{ markdownRenderTypeLink $type.UnderlyingType }}{{ range $type.Validation }}; {{ . }}{{ end }}.
{{ end }}
{{- if $type.Members }}
| field | what it is | default | rules |
|---|---|---|---|
{{ if $type.GVK -}}
| `apiVersion` | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | | |
| `kind` | `{{ $type.GVK.Kind }}` | | |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}`<br />{{ if eq .Type.Name "UID" }}_string_{{ else if eq (markdownRenderType .Type) "integer array" }}_string_ in base64{{/* []byte */}}{{ else }}{{ markdownRenderType .Type }}{{ end }} |{{/* Kubernetes' reference has no place for UID */}} {{ template "type_members" . }} | {{ with .Default }}{{ markdownRenderDefault . }}{{ end }} | {{ template "rules" .Validation }} |
{{ end -}}
{{ end -}}
{{ if $type.EnumValues }}
| value | what it means |
|---|---|
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "words" .Doc }} |
{{ end -}}
{{ end -}}
{{- end -}}
{{- end -}}
