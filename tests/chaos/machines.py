"""Machines of network namespaces, and what decides for the jobs on them, for healing.py."""

import os
import shutil
import subprocess
import time

HUB = "10.77.0.1"  # the address of the authority and of etcd; machine I has 10.77.0.(10 + I)


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Network:
    """Two machines and a third place, each a network namespace, and a bridge between
    them. Requires root."""

    def __init__(self):
        self.prefix = f"troupe-{os.getpid()}"
        self.hub = f"{self.prefix}-hub"
        self.machines = [f"{self.prefix}-{i}" for i in range(2)]
        for name in [self.hub, *self.machines]:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        self.at_hub("link", "add", "bridge", "type", "bridge")
        self.at_hub("addr", "add", f"{HUB}/24", "dev", "bridge")
        self.at_hub("link", "set", "bridge", "up")
        for i, name in enumerate(self.machines):
            self.at_hub("link", "add", f"m{i}", "type", "veth", "peer", "name", "eth0",
                        "netns", name)
            self.at_hub("link", "set", f"m{i}", "master", "bridge", "up")
            run("ip", "-n", name, "addr", "add", f"10.77.0.{10 + i}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")

    def at_hub(self, *words):
        run("ip", "-n", self.hub, *words)

    def cut(self, what, machine):
        """`machine`: from all others; `pair`: the two machines from each other, not from
        the authority; `authority`: that machine from the authority alone."""
        if what == "machine":
            self.at_hub("link", "set", f"m{machine}", "down")
        elif what == "pair":
            for i in range(2):
                self.at_hub("link", "set", f"m{i}", "type", "bridge_slave", "isolated", "on")
        else:
            self.at_hub("neigh", "replace", f"10.77.0.{10 + machine}", "lladdr",
                        "02:00:00:00:00:99", "dev", "bridge", "nud", "permanent")

    def heal(self, what, machine):
        if what == "machine":
            self.at_hub("link", "set", f"m{machine}", "up")
        elif what == "pair":
            for i in range(2):
                self.at_hub("link", "set", f"m{i}", "type", "bridge_slave", "isolated", "off")
        else:
            self.at_hub("neigh", "del", f"10.77.0.{10 + machine}", "dev", "bridge")

    @staticmethod
    def command(name, words):
        return ["ip", "netns", "exec", name, *words]

    def remove(self):
        for name in [self.hub, *self.machines]:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Restartable:
    """A program that is killed and started again; all its lives write to one file."""

    def __init__(self, command, output, environment):
        self.command, self.output, self.environment = command, output, environment
        self.start()

    def start(self):
        with open(self.output, "ab") as output:
            self.running = subprocess.Popen(self.command, stdout=output,
                                            stderr=subprocess.STDOUT, env=self.environment)

    def kill(self):
        self.running.kill()
        self.running.wait()

    def has_ended(self):
        return self.running.poll() is not None


class Etcd:
    """Three servers of etcd in the hub of a network."""

    def __init__(self, network, folder):
        self.network, self.folder = network, folder
        peers = ",".join(f"s{i}=http://{HUB}:{2380 + 10 * i}" for i in range(3))
        self.servers = []
        for i in range(3):
            client, peer = (f"http://{HUB}:{port + 10 * i}" for port in (2379, 2380))
            command = ["/usr/bin/etcd", "--name", f"s{i}", "--data-dir", folder.at(f"etcd{i}"),
                       "--listen-client-urls", client, "--advertise-client-urls", client,
                       "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                       "--initial-cluster", peers, "--log-level", "fatal"]
            self.servers.append(Restartable(network.command(network.hub, command),
                                            folder.at("etcd-output"), dict(os.environ)))
        self.clients = ",".join(f"{HUB}:{2379 + 10 * i}" for i in range(3))
        self.address = f"etcd://{self.clients}/job"

    def elected(self):
        """The address of the authority that is elected; empty: none is, or etcd is away."""
        words = ["etcdctl", "--endpoints", self.clients, "get", "--print-value-only",
                 "troupe/job/authority"]
        done = subprocess.run(self.network.command(self.network.hub, words), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, ETCDCTL_API="3"), timeout=30)
        return done.stdout.strip()

    def remove(self):
        for each in self.servers:
            each.kill()
        for i in range(3):
            shutil.rmtree(self.folder.at(f"etcd{i}"), ignore_errors=True)


class Deciders:
    """The authorities of a job on the machines of a network: one with its record in a
    file, or two of which etcd elects one."""

    def __init__(self, troupe, network, folder, with_etcd, trust, environment):
        self.etcd = Etcd(network, folder) if with_etcd else None
        self.address = self.etcd.address if with_etcd else f"{HUB}:29400"
        place = (["--etcd", self.address] if with_etcd
                 else ["--record", folder.at("record")])
        self.authorities = [
            Restartable(network.command(network.hub, [
                troupe, "authority", "--listen", f"{HUB}:{29400 + i}", "--on-failure", "process=rehost:1000/10min",
                *place, *trust]), folder.at(f"authority{i}"), environment)
            for i in range(2 if with_etcd else 1)]

    def elected(self):
        """The authority that decides."""
        if not self.etcd:
            return self.authorities[0]
        until = time.monotonic() + 30
        while not (address := self.etcd.elected()) and time.monotonic() < until:
            time.sleep(0.1)
        return self.authorities[1 if address.endswith("29401") else 0]

    def problem(self):
        """What is wrong with their end, after that of the job; empty: nothing."""
        until = time.monotonic() + 30
        while not self.authorities[0].has_ended() and time.monotonic() < until:
            time.sleep(0.05)
        codes = [each.running.poll() for each in self.authorities]
        return "" if 0 in codes else f"no authority ended well: {codes}"

    def remove(self):
        for each in self.authorities:
            each.kill()
        if self.etcd:
            self.etcd.remove()
