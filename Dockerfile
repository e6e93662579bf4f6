# docker build -t mirror .
FROM debian:bookworm-slim AS build

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*
# The dependencies apart from the package: a change of the code is then a layer of kilobytes, not of 700 MB.
RUN python3 -m venv --without-pip /opt/mirror
ENV PIP="python3 -m pip --python /opt/mirror/bin/python --no-cache-dir --disable-pip-version-check"
COPY pyproject.toml /src/
RUN python3 -c "import tomllib; print(*tomllib.load(open('/src/pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
        > /src/dependencies.txt \
    && $PIP install -r /src/dependencies.txt
COPY README.md /src/
COPY mirror /src/mirror
RUN $PIP install --no-deps --prefix /package /src

FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates openjdk-17-jre-headless python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin mirror
COPY --from=build /opt/mirror /opt/mirror
COPY --from=build /package /opt/mirror

ENV PATH=/opt/mirror/bin:$PATH \
    PYTHONUNBUFFERED=1
# Only /tmp is written to, and nothing there is worth keeping.
WORKDIR /tmp
# By number: Kubernetes' runAsNonRoot can't look a name up.
USER 10001:10001
EXPOSE 9464
STOPSIGNAL SIGTERM
# For `http.port` as it is by default; Kubernetes has its own probes and ignores this.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python3", "-I", "-S", "-c", "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 9464, timeout=4); c.request('GET', '/livez'); sys.exit(c.getresponse().status != 200)"]
# tini: reaps Spark's orphans, and passes SIGTERM on to the service alone, which then drains.
ENTRYPOINT ["tini", "--", "mirror"]
CMD ["run", "-c", "/etc/mirror/mirror.yaml"]

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="mirror" \
      org.opencontainers.image.description="Exactly-once replication between Kafka clusters, on Spark" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim"
