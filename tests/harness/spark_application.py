"""The form of a SparkApplication (spark.apache.org/v1), as the Apache Spark Kubernetes Operator's documentation has it.

The tests can fetch no package that holds the operator's own CustomResourceDefinition. So this is written by hand, and
has what a spec may hold. The templates of the pods are Kubernetes' own.
"""

from __future__ import annotations

from typing import Any

POD_TEMPLATES = ("driverSpec", "executorSpec")  # each has a podTemplateSpec

Schema = dict[str, Any]

_TEXT, _NUMBER, _TEXTS = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}
_MAPPING = {"type": "object", "additionalProperties": _TEXT}


def _object(*required: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


_TOLERATIONS = _object(
    restartConfig=_object(
        restartPolicy=_one_of("Always", "Never", "OnFailure", "OnInfrastructureFailure"),
        maxRestartAttempts=_NUMBER,
        restartBackoffMillis=_NUMBER,
        restartCounterResetMillis=_NUMBER,
        maxRestartOnFailure=_NUMBER,
        restartBackoffMillisForFailure=_NUMBER,
        maxRestartOnSchedulingFailure=_NUMBER,
        restartBackoffMillisForSchedulingFailure=_NUMBER,
    ),
    applicationTimeoutConfig=_object(
        driverStartTimeoutMillis=_NUMBER,
        driverReadyTimeoutMillis=_NUMBER,
        executorStartTimeoutMillis=_NUMBER,
        forceTerminationGracePeriodMillis=_NUMBER,
        terminationRequeuePeriodMillis=_NUMBER,
    ),
    instanceConfig=_object(initExecutors=_NUMBER, minExecutors=_NUMBER, maxExecutors=_NUMBER),
    resourceRetainPolicy=_one_of("Always", "OnFailure", "Never"),
    resourceRetainDurationMillis=_NUMBER,
    ttlAfterStopMillis=_NUMBER,
)

SCHEMA = _object(
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    apiVersion=_one_of("spark.apache.org/v1"),
    kind=_one_of("SparkApplication"),
    metadata={"type": "object"},
    spec=_object(
        "runtimeVersions",
        mainClass=_TEXT,
        runtimeVersions=_object("sparkVersion", sparkVersion=_TEXT, scalaVersion=_TEXT, jdkVersion=_TEXT),
        jars=_TEXT,
        pyFiles=_TEXT,
        sparkRFiles=_TEXT,
        files=_TEXT,
        deploymentMode=_one_of("ClusterMode", "ClientMode"),
        proxyUser=_TEXT,
        driverArgs=_TEXTS,
        sparkConf=_MAPPING,
        applicationTolerations=_TOLERATIONS,
        **{each: _object(podTemplateSpec={"type": "object"}) for each in POD_TEMPLATES},
    ),
)
