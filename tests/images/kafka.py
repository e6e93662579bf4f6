"""A stand-in for the `apache/kafka` image, made of this machine's own files where no image can be pulled.

    python -m tests.images.kafka

gives it to the Docker engine under the official image's name, unless the engine has an image of that name. It holds
this machine's Java, the shell and the C libraries that they load, and Kafka's jars. Kafka's own wrapper turns the
environment (CLUSTER_ID, KAFKA_...) into a configuration, as in the official image, so what starts this one starts that.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import docker
import docker.errors

from mirror.demo.kafka_jars import KAFKA_VERSION, classpath
from mirror.errors import SetupError
from mirror.spark.java import java

REPOSITORY = "apache/kafka"
IMAGE = f"{REPOSITORY}:{KAFKA_VERSION}"

_HOME, _SHELL, _USER = "opt/kafka", "/bin/bash", 1000
_FILES = Path(__file__).parent / "kafka_files"
_CHANGES = (
    "USER appuser",
    "WORKDIR /opt/kafka",
    "ENV PATH=/opt/java/bin:/bin LANG=C.UTF-8",
    "EXPOSE 9092",
    'CMD ["/etc/kafka/docker/run"]',
)
_NOT_NEEDED = {"src.zip", "ct.sym", "man", "jmods", "include"}  # of a JDK


def make(client: docker.DockerClient) -> None:
    """Make the image. Raises SetupError if this machine's Java or its shell can't be copied."""
    with tempfile.TemporaryFile() as file:
        _write(file)
        file.seek(0)
        client.api.import_image_from_data(file, repository=REPOSITORY, tag=KAFKA_VERSION, changes=list(_CHANGES))


def _write(file: BinaryIO) -> None:
    """The image's root, as a tar. Links are followed: Debian's Java has its configuration and certificates in /etc."""
    home = Path(java()).resolve().parent.parent
    with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
        for folder in ("tmp", f"{_HOME}/config", f"{_HOME}/logs", "mnt/shared/config", "var/lib/kafka/data"):
            _folder(tar, folder)
        for path in _java(home):
            tar.add(path, f"opt/java/{path.relative_to(home)}", filter=_readable)
        for library in sorted(_libraries(home)):
            tar.add(library, library.lstrip("/"))
        tar.add(_SHELL, "bin/bash")
        tar.add(_SHELL, "bin/sh")
        for entry in classpath().split(os.pathsep):
            # What stands first in the class path has to be loaded first: it gets a folder that is named first.
            jars, name = (Path(entry[:-1]).iterdir(), "libs") if entry.endswith("*") else ([Path(entry)], "logging")
            for jar in sorted(jars):
                tar.add(jar, f"{_HOME}/{name}/{jar.name}")
        for each in sorted(_FILES.iterdir()):
            tar.add(each, f"etc/kafka/docker/{each.name}", filter=_readable)
        users = f"root:x:0:0::/:/bin/bash\nappuser:x:{_USER}:{_USER}::/tmp:/bin/bash\n"
        _text(tar, "etc/passwd", users)
        _text(tar, "etc/group", f"root:x:0:\nappuser:x:{_USER}:\n")


def _folder(tar: tarfile.TarFile, name: str) -> None:
    """One that everybody may write to."""
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
    tar.addfile(folder)


def _text(tar: tarfile.TarFile, name: str, text: str) -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(text), 0o644
    tar.addfile(file, io.BytesIO(text.encode()))


def _java(home: Path) -> Iterator[Path]:
    """The files of a Java runtime. Debian's has links that lead nowhere until another package is there."""
    for folder, folders, files in os.walk(home, followlinks=True):
        folders[:] = sorted(set(folders) - _NOT_NEEDED)
        yield from (path for name in sorted(set(files) - _NOT_NEEDED) if (path := Path(folder) / name).is_file())


def _readable(file: tarfile.TarInfo) -> tarfile.TarInfo:
    """Let the image's user read the file, whatever the umask was here."""
    file.mode |= 0o555 if file.mode & 0o100 else 0o444
    file.uid = file.gid = 0
    return file


def _libraries(home: Path) -> set[str]:
    """The C libraries that Java and the shell load from outside their own folder, as the loader names them."""
    programs = [home / "bin" / "java", Path(_SHELL), *home.glob("lib/**/*.so")]
    ended = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    found = set(re.findall(r"^\s.*?(/\S+) \(0x", ended.stdout, re.MULTILINE))
    if not any("libc.so" in path for path in found):
        raise SetupError(f"ldd names no C library of {programs[0]}: {ended.stderr.strip() or ended.stdout[:200]}")
    return {path for path in found if not Path(path).is_relative_to(home)}


def main() -> None:
    """Make the image if the engine has none of its name."""
    client = docker.from_env()
    try:
        client.images.get(IMAGE)
    except docker.errors.ImageNotFound:
        sys.stderr.write(f"making the image {IMAGE} of this machine's Java and Kafka's jars, once\n")
        make(client)


if __name__ == "__main__":
    try:
        main()
    except (SetupError, docker.errors.DockerException) as error:
        sys.exit(str(error))
