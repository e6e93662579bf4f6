{{- /* A SparkApplication of the Apache Spark Kubernetes Operator. */}}
{{- define "mirror.application" -}}
mainClass: org.apache.spark.deploy.PythonRunner
pyFiles: local:///opt/mirror/application.py
driverArgs: {{- include "mirror.arguments" . | nindent 2 }}
runtimeVersions: {sparkVersion: {{ .Values.sparkApplication.sparkVersion | quote }}}
sparkConf: {{- include "mirror.applicationConf" . | nindent 2 }}
driverSpec:
  podTemplateSpec: {{- include "mirror.pod" . | nindent 4 }}
executorSpec:
  podTemplateSpec: {{- include "mirror.executor" . | nindent 4 }}
applicationTolerations:
  restartConfig:
    restartPolicy: {{ .Values.sparkApplication.restart.policy }}
    maxRestartAttempts: {{ int .Values.sparkApplication.restart.maxAttempts }}
    restartBackoffMillis: {{ mul .Values.sparkApplication.restart.backoffSeconds 1000 }}
  applicationTimeoutConfig:
    # 0: never. A driver that is not ready waits for a cluster or a person, and a restart would not bring either. Nor
    # would it bring the node that a pod waits for.
    driverStartTimeoutMillis: 0
    driverReadyTimeoutMillis: 0
    # A hundred years. An application whose state has not changed for longer is deleted without a grace period, and its
    # driver would not drain.
    forceTerminationGracePeriodMillis: 3153600000000
{{- end }}

{{- define "mirror.applicationConf" -}}
spark.app.name: mirror
spark.kubernetes.authenticate.driver.serviceAccountName: {{ include "mirror.serviceAccountName" . }}
spark.kubernetes.driver.podTemplateContainerName: mirror # the operator watches this container alone
{{- with include "mirror.at" (list .Values.resources "requests" "cpu") }}
spark.kubernetes.driver.request.cores: {{ . | quote }}
{{- end }}
{{- with include "mirror.at" (list .Values.resources "limits" "cpu") }}
spark.kubernetes.driver.limit.cores: {{ . | quote }}
{{- end }}
spark.driver.memory: {{ .Values.sparkApplication.driver.memory }}
spark.driver.memoryOverhead: {{ .Values.sparkApplication.driver.memoryOverhead }}
{{ include "mirror.executorConf" . }}
# Longer than the executor's preStop. Spark does not use the pod template's.
spark.kubernetes.executor.terminationGracePeriodSeconds: {{ add .Values.terminationGracePeriodSeconds 10 | quote }}
{{- end }}
