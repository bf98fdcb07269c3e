{{- define "gvList" -}}
# API

Generated from the code by `make generate`: each field of Berth's resources.
[The guide](../guide/second-scheduler.md) shows them at work, and
[the plugins' pages](../plugins/README.md) have what goes into `args`. With a cluster
at hand `kubectl explain sprof.spec --recursive` says the same.

{{ range . -}}
{{ template "gvDetails" . }}
{{- end -}}
{{- end -}}
