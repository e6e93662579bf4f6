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
  # 0: never. A driver that is not ready waits for a cluster or a person, and a restart would not bring either.
  applicationTimeoutConfig: {driverReadyTimeoutMillis: 0}
{{- end }}

{{- define "mirror.applicationConf" -}}
spark.app.name: mirror
spark.kubernetes.authenticate.driver.serviceAccountName: {{ include "mirror.serviceAccountName" . }}
spark.kubernetes.driver.podTemplateContainerName: mirror # the operator watches this container alone
{{- with dig "requests" "cpu" "" .Values.resources }}
spark.kubernetes.driver.request.cores: {{ . | quote }}
{{- end }}
{{- with dig "limits" "cpu" "" .Values.resources }}
spark.kubernetes.driver.limit.cores: {{ . | quote }}
{{- end }}
spark.driver.memory: {{ .Values.sparkApplication.driver.memory }}
spark.driver.memoryOverhead: {{ .Values.sparkApplication.driver.memoryOverhead }}
{{ include "mirror.executorConf" . }}
{{- end }}
