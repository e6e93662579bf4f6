"""Completes the image's bill of materials: cyclonedx-py knows Python's packages alone.

    python bill_of_materials.py PYTHON.json OUT.json VERSION

adds Debian's packages and Spark's jars to the CycloneDX file PYTHON.json, checks the result against CycloneDX's schema
and writes it to OUT.json. It runs in the image's build, with the Python that has cyclonedx-py.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]

JARS = "lib/python3*/site-packages/pyspark/jars/*.jar"
PROPERTIES = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
PROPERTIES_BYTES = 64 * 1024
FIELDS = r"${Package}\t${Version}\t${Architecture}\n"


def debian(installed: str, release: dict[str, str]) -> Iterator[Component]:
    """The packages that `dpkg-query` lists: name, version and architecture on each line."""
    distribution = release["ID"]
    for line in installed.splitlines():
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/{distribution}/{quote(name)}@{quote(version, safe='')}?arch={architecture}"
        yield _library(name, version, f"{purl}&distro={distribution}-{release['VERSION_ID']}")


def jars(environment: Path) -> Iterator[Component]:
    """Spark's jars in an environment, each with its hash. Scanners know a jar by the Maven coordinates in it."""
    for path in sorted(environment.glob(JARS)):
        found = re.fullmatch(r"(.+?)-(\d.*)", path.stem)
        name, version = (found[1], found[2]) if found else (path.stem, "")
        group = _maven_group(path, name)
        kind = f"maven/{quote(group)}" if group else "generic"
        at = f"@{quote(version, safe='')}" if version else ""
        component = _library(name, version, f"pkg:{kind}/{quote(name)}{at}")
        if group:
            component["group"] = group
        component["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]
        yield component


def _maven_group(path: Path, artifact: str) -> str:
    """The jar's Maven group, or "" if it says none. A jar may hold the properties of others that it bundles."""
    with zipfile.ZipFile(path) as jar:
        for entry in jar.infolist():
            if PROPERTIES.fullmatch(entry.filename) and entry.file_size <= PROPERTIES_BYTES:
                lines = jar.read(entry).decode(errors="replace").splitlines()
                properties = dict(line.strip().split("=", 1) for line in lines if "=" in line)
                if properties.get("artifactId") == artifact:
                    return properties.get("groupId", "")
    return ""


def _library(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def complete(bill: Component, added: list[Component], version: str) -> Component:
    """The bill of the whole image. A jar that is there twice stays once."""
    metadata = {
        **bill.get("metadata", {}),
        "component": {"type": "container", "bom-ref": "image", "name": "mirror", "version": version},
    }
    return {
        **bill,
        "metadata": metadata,
        "components": [*bill["components"], *{each["bom-ref"]: each for each in added}.values()],
    }


def check(text: str) -> None:
    """End the build if the text is no valid CycloneDX."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415  # only where the image is built
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the bill of materials is not valid: {error}")


def main(python: Path, out: Path, version: str) -> None:
    """Write the image's bill of materials."""
    command = ["dpkg-query", "--show", f"--showformat={FIELDS}"]
    installed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    packages = list(debian(installed, platform.freedesktop_os_release()))
    spark = list(jars(Path("/opt/mirror")))
    if not packages or not spark:
        sys.exit(f"the image has {len(packages)} packages of Debian and {len(spark)} jars: the bill can't be complete")
    text = json.dumps(complete(json.loads(python.read_text()), [*packages, *spark], version), indent=1)
    check(text)
    out.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
