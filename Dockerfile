# docker build -t mirror .       (with BuildKit, as is the default since Docker 23; before that, set DOCKER_BUILDKIT=1)
# docker run -v $PWD/mirror:/etc/mirror:ro -p 9464:9464 --stop-timeout 30 mirror       (with mirror.yaml in that folder)
#
# Runs as any user, and with --read-only as long as /tmp can be written to (--tmpfs /tmp:exec,mode=1777).
#
# All that comes from PyPI is pinned by hash. Debian's own packages are as new as the base image's sources are; to fix the
# base image too: --build-arg BASE=debian@sha256:<the digest that you have looked at>
#
# A package index of your own goes into a pip.conf, and its certificates into a file that pip.conf names as
# `cert = /run/secrets/certificates`. Both are secrets of the build and leave nothing in the image:
#   docker build --secret id=pip,src=pip.conf --secret id=certificates,src=certificates.pem -t mirror .
ARG BASE=docker.io/library/debian:bookworm-slim
FROM $BASE AS build

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv --without-pip /opt/mirror
ENV PIP_PYTHON=/opt/mirror/bin/python PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off
# The tool that writes the bill of materials has dependencies of its own. It gets an environment that stays behind.
COPY requirements-sbom.txt /src/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 -m venv --without-pip /opt/sbom \
    && PIP_PYTHON=/opt/sbom/bin/python pip install --require-hashes --only-binary :all: -r /src/requirements-sbom.txt
# The dependencies apart from the package: a change of the code is then a layer of kilobytes, not of 700 MB. Without build
# isolation, or pip would build with tools that nobody has pinned; these tools do not stay.
COPY requirements-build.txt requirements.txt /src/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    pip install --require-hashes --only-binary :all: -r /src/requirements-build.txt \
    && pip install --require-hashes --no-deps --no-build-isolation -r /src/requirements.txt
COPY pyproject.toml README.md LICENSE NOTICE /src/
COPY mirror /src/mirror
RUN pip install --no-deps --no-index --no-build-isolation --prefix /package /src \
    && pip uninstall --yes -r /src/requirements-build.txt
# 75 MB that no run opens: a shell for Spark Connect, headers, examples and tests.
RUN cd /opt/mirror/lib/python3*/site-packages \
    && rm -r pyspark/jars/connect-repl pyspark/examples pyarrow/include pyarrow/tests


FROM $BASE AS runtime

# libnss-unknown: Spark refuses to start for a uid without a name, such as one that OpenShift makes up.
# The user comes before it, or its uid would count as taken.
# The JRE's package links manual pages, and slim bases lack their folder.
RUN useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin mirror \
    && mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates libnss-unknown openjdk-17-jre-headless python3 tini \
    && rm -rf /var/lib/apt/lists/* /tmp/*
COPY --from=build /opt/mirror /opt/mirror
COPY --from=build /package /opt/mirror
# With an archive of the classes that Spark loads, the service starts in half the time. It works without one, too, and
# where another processor is emulated, Spark may be too slow to make it.
ENV MIRROR_CACHE=/opt/mirror/cache
RUN HOME=/tmp /opt/mirror/bin/python -m mirror.spark.prepare || echo "the image gets no archive of classes" >&2; \
    rm -rf /tmp/* /tmp/.[a-z]*
# What a spark-submit is given as the application, under a name that does not depend on Python's version.
RUN ln -s /opt/mirror/lib/python3*/site-packages/mirror/__main__.py /opt/mirror/application.py

# Only /tmp is written to, and nothing there is worth keeping.
ENV PATH=/opt/mirror/bin:$PATH HOME=/tmp LANG=C.UTF-8 PYTHONUNBUFFERED=1
WORKDIR /tmp
# By number: Kubernetes' runAsNonRoot can't look a name up.
USER 10001:10001
EXPOSE 9464
# Asks the default `http.port`, with TLS or without it. Kubernetes has its own probes and ignores this.
COPY deploy/image/healthy.py /opt/mirror/
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s CMD ["python3", "-I", "-S", "/opt/mirror/healthy.py"]
# tini reaps what Spark orphans, and passes SIGTERM on to the service alone, which then drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "mirror"]
CMD ["run", "-c", "/etc/mirror/mirror.yaml"]


# It counts what is in the image, so it is made of it.
FROM runtime AS sbom
USER root
COPY --from=build /opt/sbom /opt/sbom
COPY deploy/image/bill_of_materials.py /src/
ARG VERSION=dev
RUN /opt/sbom/bin/cyclonedx-py environment --output-reproducible --spec-version 1.6 --output-file /tmp/python.json \
        /opt/mirror/bin/python \
    && /opt/sbom/bin/python /src/bill_of_materials.py /tmp/python.json /sbom.cdx.json "$VERSION"


FROM runtime

# docker run --rm --entrypoint cat mirror /usr/share/doc/mirror/sbom.cdx.json
COPY --from=sbom /sbom.cdx.json /usr/share/doc/mirror/sbom.cdx.json
COPY LICENSE NOTICE /usr/share/doc/mirror/

ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="mirror" \
      org.opencontainers.image.description="Exactly-once replication between Kafka clusters, on Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="$BASE"
