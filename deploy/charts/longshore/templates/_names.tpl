{{/* Names and labels. They are Karpenter's: an upgrade of its release keeps the Deployment, whose selector cannot change. */}}

{{- define "longshore.name" -}}
{{- default "karpenter" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "longshore.fullname" -}}
{{- $name := include "longshore.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "longshore.selector" -}}
app.kubernetes.io/name: {{ include "longshore.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "longshore.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "longshore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of an object: `extra` (a map) over additionalAnnotations. Nothing, if there are none. */}}
{{- define "longshore.annotations" -}}
{{- with merge (dict) (default dict .extra) (default dict .root.Values.additionalAnnotations) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "longshore.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "longshore.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "longshore.image" -}}
{{- $image := .Values.controller.image -}}
{{- printf "%s:%s" (default "longshore" $image.repository) (default .Chart.AppVersion $image.tag | toString) -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}
