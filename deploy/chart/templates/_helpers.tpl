{{- define "mirror.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 50 characters: the Jobs add to it. */}}
{{- define "mirror.fullname" -}}
{{- $name := include "mirror.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* What all pods of the release have, executors too. */}}
{{- define "mirror.selectorLabels" -}}
app.kubernetes.io/name: {{ include "mirror.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mirror.chartLabels" -}}
{{ include "mirror.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The labels of an object: a list of the root, and of mappings of more labels. The chart's own always win. */}}
{{- define "mirror.labels" -}}
{{- $root := first . }}{{- $labels := include "mirror.chartLabels" $root | fromYaml }}
{{- range rest . }}{{- $labels = merge $labels (deepCopy .) }}{{- end }}
{{- toYaml (merge $labels (deepCopy $root.Values.commonLabels)) }}
{{- end }}

{{- define "mirror.metadata" -}}
name: {{ include "mirror.fullname" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "mirror.labels" (list .) | nindent 2 }}
{{- end }}

{{- /* What a mapping has at some keys, one below the other, as text: a list of the mapping and the keys. Empty if it is
not there, or null. */}}
{{- define "mirror.at" -}}
{{- $found := first . }}
{{- range rest . }}{{- $found = ternary (get (ternary $found dict (kindIs "map" $found)) .) "" (kindIs "map" $found) }}{{- end }}
{{- if not (kindIs "invalid" $found) }}{{ $found }}{{ end }}
{{- end }}

{{- define "mirror.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "mirror.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "mirror.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The cores of spark.master: the CPUs that are requested, at least 1. */}}
{{- define "mirror.cores" -}}
{{- $cpu := include "mirror.at" (list .Values.resources "requests" "cpu") | default "1" }}
{{- if hasSuffix "m" $cpu }}
{{- max 1 (div (trimSuffix "m" $cpu | int) 1000) }}
{{- else }}
{{- max 1 (floor (float64 $cpu) | int) }}
{{- end }}
{{- end }}

{{- /* What the chart sets: the first of the configuration's files, so that the user's wins. */}}
{{- define "mirror.base" -}}
http:
  {{- if .Values.http.tlsSecret }}
  tls_certificate: /etc/mirror-http/tls/tls.crt
  tls_key: /etc/mirror-http/tls/tls.key
  {{- end }}
  {{- if .Values.http.loginSecret }}
  username: ${file:/etc/mirror-http/login/username}
  password: ${file:/etc/mirror-http/login/password}
  {{- end }}
log: {format: json}
{{- if eq .Values.mode "local" }}
spark:
  master: "local[{{ include "mirror.cores" . }}]"
{{- else if eq .Values.mode "sparkApplication" }}
spark:
  master: k8s://https://kubernetes.default.svc # for the checks; the operator tells Spark's driver its own
{{- else }}
spark:
  master: k8s://https://kubernetes.default.svc
  conf:
    spark.driver.host: ${env:POD_IP}
    spark.driver.bindAddress: ${env:POD_IP}
    spark.kubernetes.namespace: {{ .Release.Namespace }}
    spark.kubernetes.driver.pod.name: ${env:POD_NAME} # executors go when it goes
    spark.kubernetes.executor.podTemplateFile: /etc/mirror/chart/executor.yaml
    {{- include "mirror.executorConf" . | nindent 4 }}
{{- end }}
{{- end }}

{{- /* Where the probes and the Service ask: the last of the files, so that this wins, over a ConfigMap of the user's, too.
"::" also takes IPv4. */}}
{{- define "mirror.address" -}}
http:
  host: {{ include "mirror.at" (list .Values.config "http" "host") | default "::" | quote }}
  port: {{ .Values.httpPort }}
{{- end }}

{{- /* What of a configuration takes effect at a start only, a line for each value: a list of a value, its section and its
path, and of the keys that a running service follows, by section. */}}
{{- define "mirror.atStart" -}}
{{- $value := index . 0 }}{{- $section := index . 1 }}{{- $path := index . 2 }}{{- $followed := index . 3 }}
{{- if kindIs "map" $value }}
{{- range $key, $each := $value }}
{{- if not (has $key (index $followed $section | default list)) }}
{{- $inner := trimPrefix "." (printf "%s.%s" $section $key) }}
{{- if eq $inner "flow_defaults" }}{{- $inner = "flows[]" }}{{- end }}
{{- if eq $section "flows[].topic_settings" }}{{- $inner = "flows[].topic_settings.<topic>" }}{{- end }}
{{- include "mirror.atStart" (list $each $inner (printf "%s/%s" $path $key) $followed) }}
{{- end }}
{{- end }}
{{- else if and (kindIs "slice" $value) (eq $section "flows") }}
{{- range $number, $each := $value }}
{{- include "mirror.atStart" (list $each "flows[]" (printf "%s/%d" $path $number) $followed) }}
{{- end }}
{{- else }}
{{ $path }}: {{ toJson $value }}
{{- end }}
{{- end }}

{{- /* What Spark's driver is told of the executors; for mode cluster and for mode sparkApplication. */}}
{{- define "mirror.executorConf" -}}
spark.executor.instances: {{ .Values.executor.instances | quote }}
spark.executor.cores: {{ .Values.executor.cores | quote }}
spark.executor.memory: {{ .Values.executor.memory }}
spark.executor.memoryOverhead: {{ .Values.executor.memoryOverhead }}
spark.kubernetes.container.image: {{ include "mirror.image" . }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.imagePullSecrets }}
spark.kubernetes.container.image.pullSecrets: {{ include "mirror.pullSecrets" . }}
{{- end }}
# Failures of months add up, and Spark would end the driver after a few. Each failure is retried.
spark.executor.maxNumFailures: "1000000"
spark.kubernetes.executor.podTemplateContainerName: executor
# The one to which a cloud gives a role, for a token provider. It has no token of Kubernetes.
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "mirror.serviceAccountName" . }}
{{- end }}

{{- define "mirror.pullSecrets" -}}
{{- $names := list }}
{{- range . }}{{- $names = append $names .name }}{{- end }}
{{- join "," $names }}
{{- end }}

{{- define "mirror.certificateVolumes" -}}
{{- range $number, $each := .Values.certificates }}
- name: certificates-{{ $number }}
  secret: {secretName: {{ $each.secret }}}
{{- end }}
{{- end }}

{{- define "mirror.certificateMounts" -}}
{{- range $number, $each := .Values.certificates }}
- {name: certificates-{{ $number }}, mountPath: {{ $each.mountPath }}, readOnly: true}
{{- end }}
{{- end }}

{{- /* The Secrets of the HTTP port; for the service, and for the test and the Job that read the same configuration. */}}
{{- define "mirror.httpVolumes" -}}
{{- with .Values.http.tlsSecret }}
- name: http-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .Values.http.loginSecret }}
- name: http-login
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}

{{- define "mirror.httpMounts" -}}
{{- if .Values.http.tlsSecret }}
- {name: http-tls, mountPath: /etc/mirror-http/tls, readOnly: true}
{{- end }}
{{- if .Values.http.loginSecret }}
- {name: http-login, mountPath: /etc/mirror-http/login, readOnly: true}
{{- end }}
{{- end }}

{{- /* A probe, unless it is null: a list of the root, its name, its path and its defaults. No path needs a password. */}}
{{- define "mirror.probe" -}}
{{- $root := index . 0 }}{{- $name := index . 1 }}{{- $given := get $root.Values $name }}
{{- if kindIs "map" $given }}
{{ $name }}:
  httpGet: {path: {{ index . 2 }}, port: http{{ if $root.Values.http.tlsSecret }}, scheme: HTTPS{{ end }}}
  {{- with merge (dict) $given (index . 3) }}{{ toYaml . | nindent 2 }}{{- end }}
{{- end }}
{{- end }}

{{- /* The pod template of executors. Spark adds the image, the command, the environment and the resources. */}}
{{- define "mirror.executor" -}}
metadata:
  labels:
    {{- include "mirror.labels" (list . (dict "app.kubernetes.io/component" "executor") .Values.executor.podLabels) | nindent 4 }}
  {{- with .Values.executor.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false # only the driver talks to Kubernetes
  {{- include "mirror.everywhere" . | nindent 2 }}
  {{- with .Values.executor.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.executor.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.executor.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: executor
      image: {{ include "mirror.image" . }}
      {{- if eq .Values.mode "sparkApplication" }}
      # The operator has driver and executors deleted at the same time. The executors wait while the driver drains.
      lifecycle: {preStop: {exec: {command: [sleep, {{ .Values.terminationGracePeriodSeconds | quote }}]}}}
      {{- end }}
      {{- with .Values.env }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include "mirror.envFrom" . | nindent 6 }}
      {{- include "mirror.containerSecurity" . | nindent 6 }}
      volumeMounts:
        {{- include "mirror.commonMounts" . | nindent 8 }}
  volumes:
    {{- include "mirror.commonVolumes" . | nindent 4 }}
{{- end }}

{{- define "mirror.containerSecurity" -}}
{{- with .Values.securityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The environment that the configuration's ${env:...} is read from. */}}
{{- define "mirror.environment" -}}
{{- if or .Values.env (eq .Values.mode "cluster") }}
env:
  {{- if eq .Values.mode "cluster" }}
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  {{- end }}
  {{- with .Values.env }}{{ toYaml . | nindent 2 }}{{- end }}
{{- end }}
{{- include "mirror.envFrom" . }}
{{- end }}

{{- define "mirror.envFrom" -}}
{{- if or .Values.existingSecret .Values.envFrom }}
envFrom:
  {{- with .Values.existingSecret }}
  - secretRef: {name: {{ . }}}
  {{- end }}
  {{- with .Values.envFrom }}{{ toYaml . | nindent 2 }}{{- end }}
{{- end }}
{{- end }}

{{- define "mirror.arguments" -}}
- run
{{ include "mirror.files" . }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{ include "mirror.lastFile" . }}
{{- if .Values.standby.enabled }}
- --standby
- --standby-after={{ .Values.standby.after }}
{{- end }}
{{- end }}

{{- define "mirror.files" -}}
- -c
- /etc/mirror/chart/chart.yaml
- -c
- /etc/mirror/config/{{ ternary .Values.existingConfigMapKey "mirror.yaml" (ne .Values.existingConfigMap "") }}
{{- end }}

{{- define "mirror.lastFile" -}}
- -c
- /etc/mirror/chart/address.yaml
{{- end }}

{{- /* What executors have, too. */}}
{{- define "mirror.commonMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- include "mirror.certificateMounts" . }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mirror.commonVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
{{- include "mirror.certificateVolumes" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mirror.mounts" -}}
- {name: chart, mountPath: /etc/mirror/chart, readOnly: true}
- {name: config, mountPath: /etc/mirror/config, readOnly: true}
{{ include "mirror.commonMounts" . }}
{{- include "mirror.httpMounts" . }}
{{- end }}

{{- define "mirror.volumes" -}}
{{- $name := include "mirror.fullname" . }}
{{- include "mirror.volumesOf" (list . (printf "%s-chart" $name) $name) }}
{{- end }}

{{- /* A list of the root, and of the names of the ConfigMaps with the chart's files and with `config`. */}}
{{- define "mirror.volumesOf" -}}
{{- $root := first . -}}
- name: chart
  configMap: {name: {{ index . 1 }}}
- name: config
  configMap: {name: {{ default (index . 2) $root.Values.existingConfigMap }}}
{{ include "mirror.commonVolumes" $root }}
{{- include "mirror.httpVolumes" $root }}
{{- end }}

{{- define "mirror.podPullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* What all pods have. */}}
{{- define "mirror.everywhere" -}}
{{- with .Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range list "priorityClassName" "schedulerName" "runtimeClassName" "dnsPolicy" }}
{{- $name := . }}
{{- with get $.Values $name }}
{{ $name }}: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the pod may run, and as what; for the service, for the test and for the Job that validates. */}}
{{- define "mirror.placement" -}}
{{ include "mirror.everywhere" . }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of the service's pod. The user's win. */}}
{{- define "mirror.podAnnotations" -}}
{{- $own := dict "checksum/chart" (print (include "mirror.base" .) (include "mirror.address" .) (include "mirror.executor" .) | sha256sum) }}
{{- if not .Values.existingConfigMap }}
{{- $config := include "mirror.atStart" (list .Values.config "" "" (.Files.Get "files/followed.yaml" | fromYaml)) }}
{{- $_ := set $own "checksum/config" (ternary (toYaml .Values.config) $config .Values.restartOnConfigChange | sha256sum) }}
{{- end }}
{{- /* A monitor would scrape the pod a second time, and annotations can name no password. */}}
{{- $other := or .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled .Values.http.loginSecret }}
{{- if and .Values.metrics.scrapeAnnotations (not $other) }}
{{- $asked := dict "prometheus.io/scrape" "true" "prometheus.io/port" (toString .Values.httpPort) "prometheus.io/path" "/metrics" }}
{{- $own = merge $own $asked (ternary (dict "prometheus.io/scheme" "https") dict (ne .Values.http.tlsSecret "")) }}
{{- end }}
{{- toYaml (merge (deepCopy .Values.podAnnotations) $own) }}
{{- end }}

{{- /* The service's pod. With mode sparkApplication it is Spark's template for its driver, and Spark adds the
arguments, the resources and the secrets for the image. */}}
{{- define "mirror.pod" -}}
metadata:
  labels:
    {{- include "mirror.labels" (list . (dict "app.kubernetes.io/component" "service") .Values.podLabels) | nindent 4 }}
  annotations:
    {{- include "mirror.podAnnotations" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "mirror.serviceAccountName" . }}
  automountServiceAccountToken: {{ ne .Values.mode "local" }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- if eq .Values.workload "Job" }}
  restartPolicy: Never
  {{- end }}
  {{- if ne .Values.mode "sparkApplication" }}{{ include "mirror.podPullSecrets" . | nindent 2 }}{{ end }}
  {{- include "mirror.placement" . | nindent 2 }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- else }}
  {{- if .Values.standby.enabled }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "mirror.selectorLabels" $ | nindent 10 }}
          app.kubernetes.io/component: service
    {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.extraInitContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: mirror
      image: {{ include "mirror.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if ne .Values.mode "sparkApplication" }}
      args: {{- include "mirror.arguments" . | nindent 8 }}
      {{- end }}
      {{- include "mirror.environment" . | nindent 6 }}
      ports:
        - {name: http, containerPort: {{ .Values.httpPort }}}
      {{- include "mirror.containerSecurity" . | nindent 6 }}
      {{- with .Values.lifecycle }}
      lifecycle: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if and .Values.resources (ne .Values.mode "sparkApplication") }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      {{- end }}
      {{- $failures := dict "failureThreshold" (ternary 150 30 (eq .Values.mode "sparkApplication")) }}
      {{- include "mirror.probe" (list . "startupProbe" "/livez" $failures) | nindent 6 }}
      {{- include "mirror.probe" (list . "livenessProbe" "/livez" dict) | nindent 6 }}
      {{- include "mirror.probe" (list . "readinessProbe" (ternary "/livez" "/readyz" (eq .Values.readiness "alive")) dict) | nindent 6 }}
      volumeMounts:
        {{- include "mirror.mounts" . | nindent 8 }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{- end }}
  volumes:
    {{- include "mirror.volumes" . | nindent 4 }}
{{- end }}

{{- /* Not empty if a key is that of a secret. The words are those of SECRET in mirror/config/located_yaml.py (a test
compares). The exceptions are keys of a place, a name or a kind. */}}
{{- define "mirror.isSecret" -}}
{{- $name := toString . | lower | replace "oauthbearer" "" }}
{{- if regexMatch `password|passphrase|secret|token|key|jaas|oauth|credential` $name }}
{{- if not (regexMatch `(keytab|store|location|file|url|type|provider|algorithm|length|bits|[.]id)$|[.](secrets|secretkeyref)[.]` $name) }}yes{{ end }}
{{- end }}
{{- end }}

{{- /* Fails if a secret is written in clear: a list of a section of the configuration and of its path. What a reference
leads to is not in the values; "$${" is none. Each HTTP header may be a secret, whatever its name. */}}
{{- define "mirror.noSecrets" -}}
{{- $path := last . }}
{{- range $key, $value := first . }}
{{- $at := ternary (printf "%s[%v]" $path $key) (printf "%s.%v" $path $key) (kindIs "int" $key) }}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}
{{- include "mirror.noSecrets" (list $value $at) }}
{{- else if and $value (not (kindIs "bool" $value)) (or (include "mirror.isSecret" $key) (eq $path "config.metrics.otlp.headers")) (not (regexMatch `(^|[^$])[$][{]` (toString $value))) }}
{{- fail (printf "%s: a ConfigMap would hold it in clear. Put it into a Secret, name that in existingSecret, and write ${env:NAME} here, NAME being its key there; or mount the Secret, and write ${file:/path}" $at) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Mistakes that a schema can't see. */}}
{{- define "mirror.check" -}}
{{- if and (not .Values.config) (not .Values.existingConfigMap) }}
{{- fail "config: clusters and flows are missing. Write them there, or name a ConfigMap of yours in existingConfigMap" }}
{{- end }}
{{- if and .Values.config .Values.existingConfigMap }}
{{- fail "config and existingConfigMap: only one of the two can hold the configuration; remove the other" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics: serviceMonitor and podMonitor would each scrape the same pod; enable one of them" }}
{{- end }}
{{- if ne (include "mirror.at" (list .Values.config "http" "port") | default (toString .Values.httpPort) | int) (int .Values.httpPort) }}
{{- fail "config.http.port: set httpPort instead, which the probes and the Service use too" }}
{{- end }}
{{- $host := include "mirror.at" (list .Values.config "http" "host") }}
{{- if regexMatch `^(localhost|127\..*|\[?::1\]?)$` $host }}
{{- fail (printf "config.http.host: at %s neither the probes nor the Service reach the pod; leave it out, and see networkPolicy.metricsFrom" $host) }}
{{- end }}
{{- range $key, $secret := dict "tls_certificate" "tlsSecret" "tls_key" "tlsSecret" "username" "loginSecret" "password" "loginSecret" }}
{{- if include "mirror.at" (list $.Values.config "http" $key) }}
{{- fail (printf "config.http.%s: name a Secret in http.%s instead, which the probes and the monitors use too" $key $secret) }}
{{- end }}
{{- end }}
{{- with .Values.config }}{{ include "mirror.noSecrets" (list . "config") }}{{ end }}
{{- if and (or .Values.http.loginSecret .Values.http.tlsSecret) (hasKey (.Values.config | default dict) "http") (kindIs "invalid" (get .Values.config "http")) }}
{{- fail "config.http: null would take away the login and the certificate of http.loginSecret and http.tlsSecret; leave it out" }}
{{- end }}
{{- if eq .Values.mode "cluster" }}
{{- $config := .Values.config | default dict }}
{{- $spark := ternary (get $config "spark") dict (kindIs "map" (get $config "spark")) }}
{{- range list (list "config.spark" $config) (list "config.spark.master" $spark) (list "config.spark.conf" $spark) }}
{{- $key := first . | splitList "." | last }}
{{- if and (hasKey (last .) $key) (kindIs "invalid" (get (last .) $key)) }}
{{- fail (printf "%s: with mode cluster, null would take away what the chart sets there; leave it out" (first .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (ne .Values.mode "local") .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: name the account that gets the role; without it, that would be the account of every pod in the namespace that names none. Or set rbac.create: false" }}
{{- end }}
{{- if and (eq .Values.workload "Job") .Values.extraContainers }}
{{- fail "extraContainers: with workload Job a container that runs on would keep mirror from being started again; use extraInitContainers with restartPolicy: Always (Kubernetes 1.29)" }}
{{- end }}
{{- if and (eq .Values.workload "Job") .Values.standby.enabled }}
{{- fail "standby: with workload Job a pod that loses the flows is not started again, so nothing would stand by; use workload Deployment" }}
{{- end }}
{{- if eq .Values.mode "sparkApplication" }}
{{- if eq .Values.workload "Job" }}
{{- fail "workload: with mode sparkApplication the operator starts the driver again, as sparkApplication.restart says; leave workload out" }}
{{- end }}
{{- if .Values.standby.enabled }}
{{- fail "standby: an application has one driver; use another mode" }}
{{- end }}
{{- if include "mirror.at" (list .Values.config "spark" "master") }}
{{- fail "config.spark.master: with mode sparkApplication the operator sets the master; remove it" }}
{{- end }}
{{- end }}
{{- $drain := include "mirror.at" (list .Values.config "drain_timeout") | default "10s" }}
{{- if not (contains "${" $drain) }}
{{- if not (regexMatch "^[0-9]{1,15}([.][0-9]{1,9})? ?(ms|s|m|h)?$" $drain) }}
{{- fail (printf "config.drain_timeout: must be a duration such as 10s, and is %s" $drain) }}
{{- end }}
{{- $unit := get (dict "ms" 0.001 "" 1.0 "s" 1.0 "m" 60.0 "h" 3600.0) (regexFind "[a-z]*$" $drain) }}
{{- if lt (float64 .Values.terminationGracePeriodSeconds) (addf 10 (mulf (regexFind "^[0-9.]+" $drain | float64) $unit)) }}
{{- fail (printf "terminationGracePeriodSeconds: must be at least 10 s longer than config.drain_timeout (%s), which Spark needs to end, or the pod is killed before" $drain) }}
{{- end }}
{{- end }}
{{- end }}
