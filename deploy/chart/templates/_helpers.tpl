{{- define "mirror.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 50 characters: the Job adds to it. */}}
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

{{- define "mirror.labels" -}}
{{ include "mirror.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mirror.metadata" -}}
name: {{ include "mirror.fullname" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "mirror.labels" . | nindent 2 }}
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
{{- $cpu := dig "requests" "cpu" "1" .Values.resources | toString }}
{{- if hasSuffix "m" $cpu }}
{{- max 1 (div (trimSuffix "m" $cpu | int) 1000) }}
{{- else }}
{{- max 1 (floor (float64 $cpu) | int) }}
{{- end }}
{{- end }}

{{- /* What the chart sets: the first of the configuration's files, so that the user's wins. */}}
{{- define "mirror.base" -}}
http:
  port: {{ .Values.httpPort }}
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

{{- /* The Secrets of the HTTP port; for the service and for the test, which reads the same configuration. */}}
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

{{- /* /livez and /readyz need no password. */}}
{{- define "mirror.probe" -}}
{{- $root := index . 0 -}}
httpGet: {path: {{ index . 1 }}, port: http{{ if $root.Values.http.tlsSecret }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- /* The pod template of executors. Spark adds the image, the command, the environment and the resources. */}}
{{- define "mirror.executor" -}}
metadata:
  labels:
    {{- include "mirror.labels" . | nindent 4 }}
    app.kubernetes.io/component: executor
    {{- with .Values.executor.podLabels }}{{ toYaml . | nindent 4 }}{{- end }}
  {{- with .Values.executor.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false # only the driver talks to Kubernetes
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.executor.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.executor.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.executor.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: executor
      image: {{ include "mirror.image" . }}
      {{- if eq .Values.mode "sparkApplication" }}
      # The operator has driver and executors deleted at the same time. The executors wait while the driver drains.
      lifecycle: {preStop: {exec: {command: [sleep, {{ .Values.terminationGracePeriodSeconds | quote }}]}}}
      {{- end }}
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- include "mirror.certificateMounts" . | nindent 8 }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
    {{- include "mirror.certificateVolumes" . | nindent 4 }}
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

{{- define "mirror.mounts" -}}
- {name: chart, mountPath: /etc/mirror/chart, readOnly: true}
- {name: config, mountPath: /etc/mirror/config, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- include "mirror.certificateMounts" . }}
{{- include "mirror.httpMounts" . }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mirror.volumes" -}}
- name: chart
  configMap: {name: {{ include "mirror.fullname" . }}-chart}
- name: config
  configMap: {name: {{ default (include "mirror.fullname" .) .Values.existingConfigMap }}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
{{- include "mirror.certificateVolumes" . }}
{{- include "mirror.httpVolumes" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mirror.podPullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the pod may run, and as what; for the service and for the test. */}}
{{- define "mirror.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{- /* The service's pod. With mode sparkApplication it is Spark's template for its driver, and Spark adds the
arguments, the resources and the secrets for the image. */}}
{{- define "mirror.pod" -}}
metadata:
  labels:
    {{- include "mirror.labels" . | nindent 4 }}
    app.kubernetes.io/component: service
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{- end }}
  annotations:
    checksum/chart: {{ print (include "mirror.base" .) (include "mirror.executor" .) | sha256sum }}
    {{- if and .Values.restartOnConfigChange (not .Values.existingConfigMap) }}
    checksum/config: {{ toYaml .Values.config | sha256sum }}
    {{- end }}
    {{- if .Values.metrics.scrapeAnnotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .Values.httpPort | quote }}
    prometheus.io/path: /metrics
    {{- if .Values.http.tlsSecret }}
    prometheus.io/scheme: https
    {{- end }}
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{- end }}
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
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      {{- if ne .Values.mode "sparkApplication" }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      {{- end }}
      startupProbe:
        {{- include "mirror.probe" (list . "/livez") | nindent 8 }}
        {{- $failures := ternary 150 30 (eq .Values.mode "sparkApplication") }}
        {{- toYaml (merge (dict) .Values.startupProbe (dict "failureThreshold" $failures)) | nindent 8 }}
      livenessProbe:
        {{- include "mirror.probe" (list . "/livez") | nindent 8 }}
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      readinessProbe:
        {{- include "mirror.probe" (list . "/readyz") | nindent 8 }}
        {{- toYaml .Values.readinessProbe | nindent 8 }}
      volumeMounts:
        {{- include "mirror.mounts" . | nindent 8 }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{- end }}
  volumes:
    {{- include "mirror.volumes" . | nindent 4 }}
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
{{- if ne (dig "http" "port" .Values.httpPort .Values.config | int) (int .Values.httpPort) }}
{{- fail "config.http.port: set httpPort instead, which the probes and the Service use too" }}
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
{{- if dig "spark" "master" "" .Values.config }}
{{- fail "config.spark.master: with mode sparkApplication the operator sets the master; remove it" }}
{{- end }}
{{- end }}
{{- $drain := dig "drain_timeout" "10s" .Values.config | toString }}
{{- $unit := get (dict "ms" 0.001 "" 1 "s" 1 "m" 60 "h" 3600) (regexFind "[a-z]*$" $drain) }}
{{- $seconds := mulf (regexFind "^[0-9.]+" $drain | float64) (default 0 $unit) }}
{{- if le (float64 .Values.terminationGracePeriodSeconds) $seconds }}
{{- fail (printf "terminationGracePeriodSeconds: must be longer than config.drain_timeout (%s), or the pod is killed while its transactions are open" $drain) }}
{{- end }}
{{- end }}
