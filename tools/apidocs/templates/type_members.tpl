{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
as of any object of Kubernetes
{{- else -}}
{{ template "words" .Doc }}
{{- end -}}
{{- end -}}

{{- define "words" -}}
{{ markdownRenderFieldDoc . | replace "<br />" " " | trim }}
{{- end -}}

{{- define "rules" -}}
{{- $first := true -}}
{{- range . -}}
{{- if not (hasPrefix "Optional" .) -}}
{{- if not $first }}<br />{{ end -}}
{{- if hasPrefix "Required" . }}required{{ else }}{{ markdownRenderFieldDoc . | trim }}{{ end -}}
{{- $first = false -}}
{{- end -}}
{{- end -}}
{{- end -}}
