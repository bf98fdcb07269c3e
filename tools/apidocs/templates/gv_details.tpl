{{- define "gvDetails" -}}
Group and version: `{{ .GroupVersionString }}`. Its kinds:
{{ range .SortedKinds }}
- {{ $.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{ range .SortedTypes }}
{{- template "type" . }}
{{- end }}
{{- end -}}
