"""What a node does for the pods of Spark's executors: their processes on this machine, and what becomes of them.

The containers' images are not here: a container's arguments are given to the `mirror` of this tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from tests.kube.client import MERGE, Client, Object

ADDRESS = "127.0.0.1"
_INTERVAL = 0.2  # seconds between two looks


class Kubelet:
    """Runs what the pods in a namespace with a label say, until they are gone."""

    def __init__(self, client: Client, namespace: str, label: str, directory: Path) -> None:
        self._client = client
        self._namespace = f"/api/v1/namespaces/{namespace}"
        self._label = label
        self._directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._told: dict[str, str] = {}  # the phase of each pod
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self.pods: dict[str, Object] = {}  # all that there ever were

    def running(self) -> set[str]:
        """The pods whose processes run. Spark replaces one that is silent for long, as on a very busy machine."""
        return {name for name, process in self._running.copy().items() if process.poll() is None}

    def kill(self, pod: str) -> None:
        """SIGKILL to a pod's process."""
        self._running[pod].kill()

    def log(self) -> str:
        """What the processes wrote."""
        return "\n".join(each.read_text(errors="replace") for each in sorted(self._directory.glob("*.log")))

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
        for process in self._running.values():
            process.kill()
            process.wait()

    def _run(self) -> None:
        while not self._ends.wait(_INTERVAL):
            found = self._client.ask("GET", f"{self._namespace}/pods?labelSelector={self._label}").good()["items"]
            there = {pod["metadata"]["name"]: pod for pod in found}
            for name in there.keys() - self.pods.keys():
                self.pods[name] = there[name]
                self._running[name] = self._start(there[name])
            for name in self._running.keys() - there.keys():
                self._running.pop(name).terminate()
            for name in self._running:
                self._tell(there[name])

    def _start(self, pod: Object) -> subprocess.Popen[bytes]:
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        mounted = {each["mountPath"]: self._volume(pod, each["name"]) for each in container["volumeMounts"]}
        fields = {"status.podIP": ADDRESS, "metadata.name": name}
        environment = dict(os.environ)
        for each in container["env"]:
            # Kubernetes has "value", or "valueFrom" with one of these fields.
            value = each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            environment[each["name"]] = str(mounted.get(value, value))
        with (self._directory / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "mirror", *container["args"]]
            return subprocess.Popen(command, env=environment, cwd=self._directory, stdout=log, stderr=log)

    def _volume(self, pod: Object, name: str) -> Path:
        """A folder for a volume; with its files if it is a ConfigMap."""
        folder = self._directory / str(pod["metadata"]["name"]) / name
        folder.mkdir(parents=True, exist_ok=True)
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == name]
        if "configMap" in volume:
            found = self._client.ask("GET", f"{self._namespace}/configmaps/{volume['configMap']['name']}").good()
            for key, text in found.get("data", {}).items():
                (folder / key).write_text(text)
        return folder

    def _tell(self, pod: Object) -> None:
        """Say on the server what a pod's process does, if that is new."""
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        code = self._running[name].poll()
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        if self._told.get(name) == phase:
            return
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code % 256}}
        said = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        status = {
            "phase": phase,
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "containerStatuses": [{**said, "ready": code is None, "state": state}],
        }
        answer = self._client.ask("PATCH", f"{self._namespace}/pods/{name}/status", {"status": status}, MERGE)
        assert answer.code in (200, 404), answer
        self._told[name] = phase
