"""What the image's build adds to the bill of materials of cyclonedx-py."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from bill_of_materials import complete, debian, jars

RELEASE = {"ID": "debian", "VERSION_ID": "12"}


def test_a_package_of_debian_is_found_by_its_address() -> None:
    (found,) = debian("openjdk-17-jre-headless\t17.0.1~us+9-1:2\tamd64\n", RELEASE)
    assert (found["name"], found["version"]) == ("openjdk-17-jre-headless", "17.0.1~us+9-1:2")
    # The characters of Debian's versions that mean something else in an address.
    expected = "pkg:deb/debian/openjdk-17-jre-headless@17.0.1~us%2B9-1%3A2?arch=amd64&distro=debian-12"
    assert found["purl"] == found["bom-ref"] == expected


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = tmp_path / "lib/python3.11/site-packages/pyspark/jars"
    folder.mkdir(parents=True)
    return tmp_path


def jar(environment: Path, name: str, **groups: str) -> Path:
    """A jar with the Maven properties of these artifacts, `_` for `-`."""
    path = next(environment.glob("lib/python*/site-packages/pyspark/jars")) / name
    with zipfile.ZipFile(path, "w") as archive:
        for artifact, group in groups.items():
            key = artifact.replace("_", "-")
            entry = f"META-INF/maven/{group}/{key}/pom.properties"
            archive.writestr(entry, f"#written by Maven\ngroupId={group}\nartifactId={key}\nversion=9\n")
    return path


def test_a_jar_has_its_maven_coordinates_and_hash(environment: Path) -> None:
    path = jar(environment, "kryo-shaded-4.0.3.jar", objenesis="org.objenesis", kryo_shaded="com.esotericsoftware")
    (found,) = jars(environment)
    assert found["purl"] == "pkg:maven/com.esotericsoftware/kryo-shaded@4.0.3"
    assert found["group"] == "com.esotericsoftware"
    assert found["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]


def test_a_jar_that_says_nothing_is_named_by_its_file(environment: Path) -> None:
    """What it bundles does not give it a name."""
    jar(environment, "jta-1.1.jar", other="org.other")
    jar(environment, "plain.jar")
    assert [each["purl"] for each in jars(environment)] == ["pkg:generic/jta@1.1", "pkg:generic/plain"]


def test_properties_that_are_too_large_are_not_read(environment: Path) -> None:
    path = jar(environment, "big-1.jar")
    with zipfile.ZipFile(path, "w") as archive:
        text = "groupId=org.big\nartifactId=big\n" + "#" * 70_000
        archive.writestr("META-INF/maven/org.big/big/pom.properties", text)
    (found,) = jars(environment)
    assert found["purl"] == "pkg:generic/big@1"


def test_the_whole_keeps_what_there_was_and_names_the_image() -> None:
    bill = {"bomFormat": "CycloneDX", "metadata": {"tools": {}}, "components": [{"bom-ref": "click"}]}
    package = next(debian("tini\t0.19\tamd64", RELEASE))
    whole = complete(bill, [package, package], "1.2")
    assert [each["bom-ref"] for each in whole["components"]] == ["click", package["purl"]]
    assert whole["metadata"]["component"]["version"] == "1.2" and "tools" in whole["metadata"]
    assert whole["bomFormat"] == "CycloneDX"
