"""A node of Kubernetes on this machine: what makes pods of a Deployment and of a Job, and runs their containers.

These are Kubernetes' controllers, its scheduler and its kubelet, with containerd and runc below. The pods are behind a
bridge, whose own address is the machine's for them. It needs root, and Debian's `runc`, which comes with docker.io.

What a cluster has besides is not here: no names of Services, no kube-proxy, nobody that enforces a NetworkPolicy.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.harness.waiting import until
from tests.kube import programs
from tests.kube.client import Object
from tests.kube.control_plane import ControlPlane

BRIDGE, ADDRESS, NET = "mirrorkube0", "10.214.0.1", "10.214.0.0/24"
NAME = "here"
_KUBERNETES = "k8s.io"  # the kubelet's namespace in containerd
_CONTROL_GROUP = "kubepods"  # the kubelet's, of all pods
_STARTED_FIRST = 3  # etcd, the API server and containerd: they are needed until no container is left


@contextlib.contextmanager
def bridge() -> Iterator[None]:
    """The network of the pods, with an address that servers of this machine may listen at."""
    # A Docker engine has Linux drop what goes from one pod to another.
    passes = ("FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT")
    # Those of a run that was killed are still there.
    for left in (("iptables", "-D", *passes), ("ip", "link", "delete", BRIDGE)):
        subprocess.run(left, stderr=subprocess.DEVNULL, check=False)
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        _run("ip", "address", "add", f"{ADDRESS}/{NET.rpartition('/')[2]}", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        _run("iptables", "-I", *passes)
        yield
    finally:
        subprocess.run(["iptables", "-D", *passes], stderr=subprocess.DEVNULL, check=False)
        _run("ip", "link", "delete", BRIDGE)


class Node:
    """Runs while its context is open. `images` is an archive with the images that its pods may have."""

    def __init__(self, plane: ControlPlane, images: Path, pause: str) -> None:
        self._plane = plane
        self._images = images
        self._pause = pause
        self._place = plane.directory
        self._socket = self._place / "containerd.sock"

    @contextlib.contextmanager
    def runs(self) -> Iterator[None]:
        """The node takes pods meanwhile. In the end all containers are killed."""
        try:
            self._start_containerd()
            self._start_kubernetes()
            until("the node is ready", self._ready)
            yield
        finally:
            self._end()

    def process(self, pod: str) -> int:
        """The process id, on this machine, of the first process of a pod's container `mirror`."""
        labels = {"pod": pod, "container": "mirror"}
        chosen = ",".join(f'labels."io.kubernetes.{key}.name"=={value}' for key, value in labels.items())
        containers = self._ctr("containers", "ls", "-q", chosen).split()
        for task in self._ctr("tasks", "ls").splitlines()[1:]:
            name, process, state = task.split()
            if name in containers and state == "RUNNING":
                return int(process)
        raise AssertionError(f"no container of {pod} runs")

    def _start_containerd(self) -> None:
        place = self._place
        (place / "network").mkdir()
        plugin = {"type": "bridge", "bridge": BRIDGE, "isGateway": True}
        addresses = {"type": "host-local", "dataDir": str(place / "addresses"), "subnet": NET}
        plugin["ipam"] = {**addresses, "routes": [{"dst": "0.0.0.0/0"}]}
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}
        (place / "network" / "pods.conflist").write_text(json.dumps(network))
        (place / "containerd.toml").write_text(self._containerd_settings())
        path = [str(programs.containerd(each).parent) for each in ("containerd", "containerd-shim-runc-v2")]
        environment = {"PATH": ":".join([*path, "/usr/sbin", "/sbin", os.environ["PATH"]])}
        options = {"config": place / "containerd.toml", "log-level": "warn"}
        self._plane.daemons.start(programs.containerd(), options, environment=environment)
        until("containerd answers", self._answers)
        self._ctr("images", "import", str(self._images))

    def _containerd_settings(self) -> str:
        place, runc = self._place, shutil.which("runc", path=f"/usr/sbin:{os.environ['PATH']}")
        assert runc is not None, "no runc: apt-get install runc"
        folders = ", ".join(f'"{each}"' for each in programs.network_plugins())
        return f"""\
version = 3
root = "{place}/containerd"
state = "{place}/containerd-state"
[grpc]
address = "{self._socket}"
[plugins."io.containerd.nri.v1.nri"]
disable = true # its socket has one place on a machine, which may be another containerd's
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{self._pause}"
[plugins."io.containerd.cri.v1.runtime"]
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true # root may have no right to lower it, as where this machine is itself a container
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{folders}]
conf_dir = "{place}/network"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
"""

    def _start_kubernetes(self) -> None:
        place, daemons, kubeconfig = self._place, self._plane.daemons, self._plane.kubeconfig()
        alone = {"kubeconfig": kubeconfig, "leader-elect": "false", "secure-port": 0}
        keys = {"service-account-private-key-file": self._plane.key, "root-ca-file": self._plane.authority}
        daemons.start(programs.kubernetes("kube-controller-manager"), {**alone, **keys})
        daemons.start(programs.kubernetes("kube-scheduler"), alone)
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            # The API server has no certificate for it, and nobody but this machine and its pods reaches the bridge.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "podLogsDir": str(place / "logs"),
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "containerRuntimeEndpoint": f"unix://{self._socket}",
        }
        (place / "kubelet.yaml").write_text(yaml.safe_dump(settings))
        options = {"config": place / "kubelet.yaml", "kubeconfig": kubeconfig, "hostname-override": NAME}
        options |= {"root-dir": place / "kubelet", "cert-dir": place / "kubelet-certificates", "node-ip": ADDRESS}
        daemons.start(programs.kubernetes("kubelet"), options)

    def _ready(self) -> bool:
        self._plane.daemons.check()
        answer = self._plane.client.ask("GET", f"/api/v1/nodes/{NAME}")
        return answer.code == 200 and "taints" not in answer.body["spec"] and ready(answer.body)

    def _answers(self) -> bool:
        self._plane.daemons.check()
        with contextlib.suppress(AssertionError):
            return bool(self._ctr("version"))
        return False

    def _ctr(self, *arguments: str) -> str:
        command = [str(programs.containerd("ctr")), "--address", str(self._socket), "--namespace", _KUBERNETES]
        return _run(*command, *arguments)

    def _end(self) -> None:
        """Stop what starts containers, and then the containers, with all that they leave behind."""
        self._plane.daemons.stop(_STARTED_FIRST)
        with contextlib.suppress(
            AssertionError
        ):  # without containerd, or after too long, the rest is removed all the same
            until("all containers are killed", lambda: not self._killed(), 30)
        for line in Path("/proc/mounts").read_text().splitlines():
            if (where := line.split()[1]).startswith(str(self._place)):
                subprocess.run(["umount", "--lazy", where], check=False)
        root = Path("/sys/fs/cgroup")
        for group in (root / _CONTROL_GROUP, *root.glob(f"*/{_CONTROL_GROUP}")):  # version 2, and 1
            for path in (*sorted(group.rglob("*/"), reverse=True), group):
                with contextlib.suppress(OSError):
                    path.rmdir()

    def _killed(self) -> list[str]:
        """Kill all containers; returns those that there were."""
        found = self._ctr("tasks", "ls", "-q").split()
        for each in found:
            with contextlib.suppress(AssertionError):
                self._ctr("tasks", "delete", "--force", each)
        return found


def ready(thing: Object) -> bool:
    """Kubernetes says of a node or a pod that it is ready."""
    conditions = thing["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
