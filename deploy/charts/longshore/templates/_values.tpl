{{/* What values mean: lookups, warnings, and what fails the rendering. The table is files/known-values.yaml. */}}

{{- define "longshore.table" -}}
{{- .Files.Get "files/known-values.yaml" -}}
{{- end -}}

{{/* {"set": whether there is a value at .path of .values, "value": that value} as JSON. */}}
{{- define "longshore.at" -}}
{{- $here := .values -}}
{{- range splitList "." .path -}}
{{- if kindIs "map" $here -}}
{{- $here = index $here . -}}
{{- else -}}
{{- $here = index (dict) "none" -}}
{{- end -}}
{{- end -}}
{{- dict "set" (not (kindIs "invalid" $here)) "value" $here | toJson -}}
{{- end -}}

{{/* A value of .value as text. Templates in it are worked out with .root, as Karpenter's chart does with `settings`. */}}
{{- define "longshore.text" -}}
{{- $text := toString .value -}}
{{- if contains "{{" $text -}}{{- tpl $text .root -}}{{- else -}}{{- $text -}}{{- end -}}
{{- end -}}

{{/* Takes keys without a value out of a map: nulls, and maps that are empty or become so. The API server refuses some of
them, such as `appArmorProfile: {}`, which Karpenter's chart has by default and leaves out. */}}
{{- define "longshore.prune" -}}
{{- $map := . -}}
{{- range $key := keys $map -}}
{{- $value := index $map $key -}}
{{- if kindIs "map" $value -}}{{- include "longshore.prune" $value -}}{{- end -}}
{{- if or (kindIs "invalid" $value) (and (kindIs "map" $value) (not $value)) -}}{{- $_ := unset $map $key -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The gates of a table (.rows) that are set in .values, "A=true,B=false". */}}
{{- define "longshore.gates" -}}
{{- $gates := list -}}
{{- $values := default dict .values -}}
{{- range .rows -}}
{{- $value := index $values .value -}}
{{- if and .gate (not (kindIs "invalid" $value)) -}}
{{- $gates = append $gates (printf "%s=%s" .gate (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* What tags of Karpenter's image begin with. Longshore's own version must not match (tests/charts.rs). */}}
{{- define "longshore.karpenterTag" -}}
^v?(0[.][0-9]{2,}|1[.][0-9]+)[.][0-9]
{{- end -}}

{{/* What was set and has no effect, a sentence each, as a JSON array. */}}
{{- define "longshore.warnings" -}}
{{- $table := include "longshore.table" . | fromYaml -}}
{{- $aws := eq .Values.longshore.provider "aws" -}}
{{- $said := list -}}
{{- $values := .Values -}}
{{- $formerly := dict -}}
{{- range $table.withoutEffect -}}
{{- $_ := set $formerly .path true -}}
{{- $at := include "longshore.at" (dict "values" $values "path" .path) | fromJson -}}
{{- if $at.set -}}
{{- $said = append $said (printf "%s has no effect: %s" .path .why) -}}
{{- end -}}
{{- end -}}
{{- $settings := default dict .Values.settings -}}
{{- $known := dict "settings" $table.keys.settings -}}
{{- range $table.settings -}}
{{- $_ := set $known "settings" (append (index $known "settings") .value) -}}
{{- $value := index $settings .value -}}
{{- if .why -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $said = append $said (printf "settings.%s has no effect: %s" .value .why) -}}
{{- end -}}
{{- else if and .aws (not $aws) (not (kindIs "invalid" $value)) -}}
{{- if ne (toString $value) "" -}}
{{- $said = append $said (printf "settings.%s has no effect: it is about EC2, and longshore.provider is %s" .value $values.longshore.provider) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $group := list "featureGates" "awsFeatureGates" -}}
{{- $set := default dict (index $settings $group) -}}
{{- $names := list -}}
{{- range index $table $group -}}
{{- $names = append $names .value -}}
{{- $value := index $set .value -}}
{{- if and .why (eq (toString $value) "true") -}}
{{- $said = append $said (printf "settings.%s.%s has no effect: %s" $group .value .why) -}}
{{- else if and (eq $group "awsFeatureGates") (not $aws) (eq (toString $value) "true") -}}
{{- $said = append $said (printf "settings.%s.%s has no effect: it is about EC2, and longshore.provider is %s" $group .value $values.longshore.provider) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $known (printf "settings.%s" $group) $names -}}
{{- end -}}
{{- range $path, $keys := $table.keys -}}
{{- if not (hasKey $known $path) -}}{{- $_ := set $known $path $keys -}}{{- end -}}
{{- end -}}
{{- range $path := keys $known | sortAlpha -}}
{{- $here := $values -}}
{{- if $path -}}
{{- $here = (include "longshore.at" (dict "values" $values "path" $path) | fromJson).value -}}
{{- end -}}
{{- if kindIs "map" $here -}}
{{- range $key := keys $here | sortAlpha -}}
{{- $full := ternary (printf "%s.%s" $path $key) $key (ne $path "") -}}
{{- if and (not (has $key (index $known $path))) (not (hasKey $formerly $full)) -}}
{{- $said = append $said (printf "%s has no effect: Longshore does not know it" $full) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $said -}}
{{- end -}}

{{/* Fails with a sentence for each value that is missing or cannot be. */}}
{{- define "longshore.checks" -}}
{{- $table := include "longshore.table" . | fromYaml -}}
{{- $values := .Values -}}
{{- $settings := default dict .Values.settings -}}
{{- $gates := default dict $settings.featureGates -}}
{{- $awsGates := default dict $settings.awsFeatureGates -}}
{{- $own := .Values.longshore -}}
{{- $wrong := list -}}
{{- if not (has $own.provider (list "aws" "kwok")) -}}
{{- $wrong = append $wrong (printf "longshore.provider is %q: nodes come from aws, or for tests from kwok" (toString $own.provider)) -}}
{{- end -}}
{{- $root := . -}}
{{- $cluster := include "longshore.text" (dict "root" $root "value" (default "" $settings.clusterName)) -}}
{{- $endpoint := include "longshore.text" (dict "root" $root "value" (default "" $settings.clusterEndpoint)) -}}
{{- if and (eq (toString $own.provider) "aws") (not $cluster) -}}
{{- $wrong = append $wrong "settings.clusterName is missing: give the name of the EKS cluster, for example --set settings.clusterName=my-cluster" -}}
{{- end -}}
{{- if and $endpoint (not (regexMatch "^https?://[^/]+" $endpoint)) -}}
{{- $wrong = append $wrong (printf "settings.clusterEndpoint is %q: give a URL with a host, such as https://ABC.gr7.eu-west-1.eks.amazonaws.com" $endpoint) -}}
{{- end -}}
{{- range $row := list
      (list "logLevel" .Values.logLevel (list "debug" "info" "warn" "error"))
      (list "settings.preferencePolicy" $settings.preferencePolicy (list "Respect" "Ignore"))
      (list "settings.minValuesPolicy" $settings.minValuesPolicy (list "Strict" "BestEffort")) -}}
{{- $said := include "longshore.text" (dict "root" $root "value" (default "" (index $row 1))) -}}
{{- if and $said (not (has $said (index $row 2))) -}}
{{- $wrong = append $wrong (printf "%s is %q: it is one of %s" (index $row 0) $said (join ", " (index $row 2))) -}}
{{- end -}}
{{- end -}}
{{- /* As Karpenter's chart refuses them. */ -}}
{{- if eq (toString $settings.enableDRA) "true" -}}
{{- range $path, $value := dict "settings.ignoreDRARequests" $settings.ignoreDRARequests "settings.awsFeatureGates.draNVIDIAGPU" $awsGates.draNVIDIAGPU "settings.awsFeatureGates.draEFA" $awsGates.draEFA -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $wrong = append $wrong (printf "settings.enableDRA stands for %s: set one of them only" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString $settings.legacyNodeRepair) "true") (eq (toString $gates.terminateFirstRepair) "true") -}}
{{- $wrong = append $wrong "settings.legacyNodeRepair replaces no node first: leave it or settings.featureGates.terminateFirstRepair out" -}}
{{- end -}}
{{- $image := .Values.controller.image -}}
{{- /* Without the registry, which may be named after anything. */ -}}
{{- $path := regexReplaceAll "^[^/]*[.:][^/]*/" (lower (toString (default "" $image.repository))) "" -}}
{{- $tag := toString (default "" $image.tag) -}}
{{- if and (contains "karpenter" $path) (not (contains "longshore" $path)) -}}
{{- $wrong = append $wrong (printf "controller.image.repository is %q, which is Karpenter's image: name one of Longshore (its path says longshore), or leave controller.image out" $image.repository) -}}
{{- else if and (not $image.repository) (or $image.tag $image.digest) -}}
{{- $wrong = append $wrong "controller.image has a tag or a digest and no repository: they belong to Karpenter's image. Leave them out, or name the repository of an image of Longshore as well" -}}
{{- else if and (regexMatch (include "longshore.karpenterTag" .) $tag) (not (hasPrefix .Chart.AppVersion (trimPrefix "v" $tag))) -}}
{{- $wrong = append $wrong (printf "controller.image.tag is %q, a version of Karpenter: leave tag and digest out, or name those of an image of Longshore" $tag) -}}
{{- else if and $image.digest (not $tag) -}}
{{- $wrong = append $wrong (printf "controller.image.digest is %q without a tag, which does not say whose image it is: name Longshore's tag as well (%s), or leave the digest out" $image.digest .Chart.AppVersion) -}}
{{- end -}}
{{- range $path, $keys := $table.longshore -}}
{{- $here := (include "longshore.at" (dict "values" $values "path" $path) | fromJson).value -}}
{{- if kindIs "map" $here -}}
{{- range $key := keys $here | sortAlpha -}}
{{- if not (has $key $keys) -}}
{{- $wrong = append $wrong (printf "%s.%s is not known: %s has %s" $path $key $path (join ", " $keys)) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $wrong = append $wrong (printf "%s is no map: it has %s" $path (join ", " $keys)) -}}
{{- end -}}
{{- end -}}
{{- if and $own.config $own.configFrom -}}
{{- $wrong = append $wrong "longshore.config and longshore.configFrom are both set: longshore.toml comes from one of them" -}}
{{- end -}}
{{- if and $own.policies (not $own.config) (not $own.configFrom) -}}
{{- $wrong = append $wrong "longshore.policies has volumes and no longshore.toml names what is in them: set longshore.config or longshore.configFrom" -}}
{{- end -}}
{{- $volumes := dict -}}
{{- range $name, $source := default dict $own.policies -}}
{{- if not (and (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name) (le (len $name) 50)) -}}
{{- $wrong = append $wrong (printf "longshore.policies.%s: the name of a volume has at most 50 small letters, digits and -" $name) -}}
{{- end -}}
{{- $_ := set $volumes (printf "longshore.policies.%s" $name) $source -}}
{{- end -}}
{{- if $own.configFrom -}}{{- $_ := set $volumes "longshore.configFrom" $own.configFrom -}}{{- end -}}
{{- if and (kindIs "map" $own.journal) $own.journal.enabled -}}{{- $_ := set $volumes "longshore.journal.volume" $own.journal.volume -}}{{- end -}}
{{- range $path, $source := $volumes -}}
{{- if not (and (kindIs "map" $source) (eq (len $source) 1)) -}}
{{- $wrong = append $wrong (printf "%s is one volume of Kubernetes, such as {configMap: {name: …}}; this has %s" $path (toJson $source)) -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n\n%s\n" (join "\n" $wrong)) -}}
{{- end -}}
{{- end -}}
