"""Collects the receipts of a Spark epoch's tasks, which makes Spark run them, with errors that Spark can search."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

SHOWN = 1_000  # most characters of an error that are kept
# What Spark looks for to tell a Spark epoch that was interrupted by the query's end from one that failed.
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling collect: java.lang.InterruptedException"


class EpochFailed(Exception):
    """A Spark epoch that failed, or that the query's end has interrupted. Its text is short."""


def collected(receipts: DataFrame) -> list[Row]:
    """Run the tasks of a Spark epoch until they end, and return their receipts.

    Raises EpochFailed. Spark searches the text of whatever a sink raises for an interruption, with an expression that
    recurses for each character (StreamExecution.PROXY_ERROR): the stack trace of Java that its own errors have would
    overflow the stack of the query's thread.
    """
    try:
        return receipts.collect()
    except Py4JJavaError as error:
        said = str(error.java_exception)
        text = INTERRUPTED if "java.lang.InterruptedException" in str(error) else said
    except PySparkException as error:
        text = error.getMessage() or type(error).__name__
    raise EpochFailed(text[:SHOWN])
