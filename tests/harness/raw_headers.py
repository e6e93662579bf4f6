"""Records whose header names Python's client can't write: others take any bytes for one."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, c_char_p, c_int, c_int64, c_size_t, c_void_p, create_string_buffer
from typing import Any

from confluent_kafka import cimpl

from tests.harness.waiting import PATIENCE

# As rdkafka.h numbers them: the arguments of rd_kafka_producev, and what they and rd_kafka_new are given.
END, TOPIC, PARTITION, VALUE, KEY, FLAGS, TIMESTAMP, HEADERS = 0, 1, 3, 4, 5, 7, 8, 10
COPY, PRODUCER = 2, 0

CONTENT = b"content"  # of each header


def produce(
    bootstrap: str, topic: str, names: Sequence[bytes], key: bytes, value: bytes, partition: int = 0, timestamp: int = 0
) -> None:
    """Produce one record with headers of these names, and wait until it stands. `timestamp` 0 is now."""
    library = CDLL(cimpl.__file__)  # that is, librdkafka as confluent_kafka brings it along: it is found through this
    handle = _producer(library, {b"bootstrap.servers": bootstrap.encode(), b"enable.idempotence": b"true"})
    arguments: list[Any] = [c_int(TOPIC), c_char_p(topic.encode()), c_int(PARTITION), c_int(partition)]
    arguments += [c_int(FLAGS), c_int(COPY), c_int(TIMESTAMP), c_int64(timestamp)]
    arguments += [c_int(KEY), *_sized(key), c_int(VALUE), *_sized(value)]
    library.rd_kafka_headers_new.restype = c_void_p
    headers = c_void_p(library.rd_kafka_headers_new(c_size_t(len(names))))
    for name in names:  # with its length, so that a NUL does not end it
        assert library.rd_kafka_header_add(headers, *_sized(name), *_sized(CONTENT)) == 0
    arguments += [c_int(HEADERS), headers]
    assert library.rd_kafka_producev(handle, *arguments, c_int(END)) == 0
    assert library.rd_kafka_flush(handle, c_int(int(PATIENCE * 1000))) == 0
    library.rd_kafka_destroy(handle)


def _sized(content: bytes) -> tuple[c_char_p, c_size_t]:
    return c_char_p(content), c_size_t(len(content))


def _producer(library: CDLL, properties: dict[bytes, bytes]) -> c_void_p:
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = c_void_p
    said = create_string_buffer(512)
    config = c_void_p(library.rd_kafka_conf_new())
    for name, value in properties.items():
        assert library.rd_kafka_conf_set(config, name, value, said, c_size_t(len(said))) == 0, said.value
    handle = library.rd_kafka_new(c_int(PRODUCER), config, said, c_size_t(len(said)))
    assert handle, said.value
    return c_void_p(handle)
