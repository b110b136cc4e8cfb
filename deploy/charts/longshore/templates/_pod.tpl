{{/* Parts of the pod that are worked out. */}}

{{/* The name of the Lease, and its namespace: as the daemon has them, which takes them from its environment. */}}
{{- define "longshore.lease" -}}
{{- $name := "karpenter-leader-election" -}}
{{- $namespace := .Release.Namespace -}}
{{- range .Values.controller.env -}}
{{- if and (eq .name "LEADER_ELECTION_NAME") .value -}}{{- $name = .value -}}{{- end -}}
{{- if and (eq .name "LEADER_ELECTION_NAMESPACE") .value -}}{{- $namespace = .value -}}{{- end -}}
{{- end -}}
{{- dict "name" $name "namespace" $namespace | toJson -}}
{{- end -}}

{{/* Variables: each name once, controller.env before what the chart says. */}}
{{- define "longshore.env" -}}
{{- $table := include "longshore.table" . | fromYaml -}}
{{- $aws := eq .Values.longshore.provider "aws" -}}
{{- $settings := default dict .Values.settings -}}
{{- $field := dict "POD_NAME" "metadata.name" "SYSTEM_NAMESPACE" "metadata.namespace" -}}
{{- $env := list -}}
{{- range $name, $path := $field -}}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) -}}
{{- end -}}
{{- $env = append $env (dict "name" "LOG_LEVEL" "value" (toString .Values.logLevel)) -}}
{{- $env = append $env (dict "name" "METRICS_PORT" "value" (toString .Values.controller.metrics.port)) -}}
{{- $env = append $env (dict "name" "HEALTH_PROBE_PORT" "value" (toString .Values.controller.healthProbe.port)) -}}
{{- /* Answers name pods of all namespaces: from inside of the pod (kubectl exec) or by kubectl port-forward alone. */ -}}
{{- $env = append $env (dict "name" "STATUS_ADDRESS" "value" "127.0.0.1:8082") -}}
{{- $root := . -}}
{{- range $table.settings -}}
{{- $value := index $settings .value -}}
{{- $variable := .variable -}}
{{- if and .variable (or $aws (not .aws)) (not (kindIs "invalid" $value)) -}}
{{- with include "longshore.text" (dict "root" $root "value" $value) -}}
{{- $env = append $env (dict "name" $variable "value" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "longshore.gates" (dict "rows" $table.featureGates "values" $settings.featureGates) -}}
{{- $env = append $env (dict "name" "FEATURE_GATES" "value" .) -}}
{{- end -}}
{{- if $aws -}}
{{- with include "longshore.gates" (dict "rows" $table.awsFeatureGates "values" $settings.awsFeatureGates) -}}
{{- $env = append $env (dict "name" "AWS_FEATURE_GATES" "value" .) -}}
{{- end -}}
{{- end -}}
{{- if not (kindIs "invalid" .Values.longshore.garbageLimit) -}}
{{- $env = append $env (dict "name" "GARBAGE_LIMIT" "value" (toString .Values.longshore.garbageLimit)) -}}
{{- end -}}
{{- $own := dict -}}
{{- range .Values.controller.env -}}{{- $_ := set $own .name true -}}{{- end -}}
{{- $all := list -}}
{{- range $env -}}
{{- if not (hasKey $own .name) -}}{{- $all = append $all . -}}{{- end -}}
{{- end -}}
{{- toYaml (concat $all (default list .Values.controller.env)) -}}
{{- end -}}

{{/* Terms of pod affinity in .affinity without a labelSelector get the labels of the pods. */}}
{{- define "longshore.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $selector := dict "matchLabels" (include "longshore.selector" . | fromYaml) -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- $terms := default dict (index $affinity $kind) -}}
{{- range $terms.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- range $terms.preferredDuringSchedulingIgnoredDuringExecution -}}
{{- if and .podAffinityTerm (not .podAffinityTerm.labelSelector) -}}{{- $_ := set .podAffinityTerm "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "longshore.spread" -}}
{{- $spread := deepCopy .Values.topologySpreadConstraints -}}
{{- $selector := dict "matchLabels" (include "longshore.selector" . | fromYaml) -}}
{{- range $spread -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- toYaml $spread -}}
{{- end -}}

{{/* Volumes of the chart, then those of the values; and where they are mounted. */}}
{{- define "longshore.volumes" -}}
{{- $all := list -}}
{{- $own := .Values.longshore -}}
{{- if $own.config -}}
{{- $all = append $all (dict "name" "longshore-config" "configMap" (dict "name" (printf "%s-config" (include "longshore.fullname" .)))) -}}
{{- else if $own.configFrom -}}
{{- $all = append $all (merge (dict "name" "longshore-config") $own.configFrom) -}}
{{- end -}}
{{- range $name, $source := default dict $own.policies -}}
{{- $all = append $all (merge (dict "name" (printf "policy-%s" $name)) $source) -}}
{{- end -}}
{{- if $own.journal.enabled -}}
{{- $all = append $all (merge (dict "name" "longshore-journal") $own.journal.volume) -}}
{{- end -}}
{{- $all = append $all (merge (dict "name" "longshore-cache") $own.cache.volume) -}}
{{- with concat $all (default list .Values.extraVolumes) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "longshore.mounts" -}}
{{- $all := list -}}
{{- $own := .Values.longshore -}}
{{- if or $own.config $own.configFrom -}}
{{- $all = append $all (dict "name" "longshore-config" "mountPath" "/etc/longshore/config" "readOnly" true) -}}
{{- end -}}
{{- range $name, $_ := default dict $own.policies -}}
{{- $all = append $all (dict "name" (printf "policy-%s" $name) "mountPath" (printf "/etc/longshore/policies/%s" $name) "readOnly" true) -}}
{{- end -}}
{{- if $own.journal.enabled -}}
{{- $all = append $all (dict "name" "longshore-journal" "mountPath" "/var/lib/longshore/journal") -}}
{{- end -}}
{{- $all = append $all (dict "name" "longshore-cache" "mountPath" "/var/lib/longshore/cache") -}}
{{- with concat $all (default list .Values.controller.extraVolumeMounts) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "longshore.containerSecurity" -}}
{{- $confined := dict
      "privileged" false
      "allowPrivilegeEscalation" false
      "readOnlyRootFilesystem" true
      "runAsNonRoot" true
      "runAsUser" 65532
      "runAsGroup" 65532
      "capabilities" (dict "drop" (list "ALL")) -}}
{{- $own := deepCopy (default dict .Values.controller.securityContext) -}}
{{- include "longshore.prune" $own -}}
{{- toYaml (mergeOverwrite $confined $own) -}}
{{- end -}}

{{- define "longshore.podSecurity" -}}
{{- $own := deepCopy (default dict .Values.podSecurityContext) -}}
{{- include "longshore.prune" $own -}}
{{- with $own -}}{{- toYaml . -}}{{- end -}}
{{- end -}}
