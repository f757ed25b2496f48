"""Tests of the Python package, with jobs that they start.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/cli/python_test.py

They are skipped where the package `numpy` cannot be imported.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

try:
    import numpy
except ImportError:
    print("needs numpy")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "python"))

import troupe_engine  # noqa: E402
from troupe_engine import places  # noqa: E402
from troupe_engine.repeated import RepeatedLines  # noqa: E402

PROGRAM = os.environ["TROUPE_PROGRAM"]
TOKENS = {"watch": "w" * 32, "control": "c" * 32}
HAS_KEYS_OF_TLS = sys.version_info >= (3, 13)


class Folder(unittest.TestCase):
    """With a temporary folder, a text, and jobs that end with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("text.txt", "the quick brown fox jumps over the lazy dog\n" * 500)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as opened:
            opened.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self, *flags, endpoint="unix:", steps=1000000, launch=()):
        """A job that trains until it is stopped, and its address. Without an endpoint
        it listens at the usual place. `launch`: words before the command."""
        if endpoint == "unix:":
            endpoint = "unix:" + self.path("job.sock")
        command = [PROGRAM, *launch, "train", "--text", self.path("text.txt"), "--ranks", "2",
                   "--microbatches", "2", "--d-model", "16", "--layers", "2", "--heads",
                   "2", "--seq", "16", "--steps", str(steps), *flags]
        if endpoint:
            command += ["--endpoint", endpoint]
        with open(self.path("log"), "w") as log:
            self.job = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.addCleanup(self.stop)
        return self.logged("attach with: troupe top ")

    def stop(self):
        if self.job.poll() is None:
            self.job.terminate()
        self.job.wait(60)

    def logged(self, text):
        """The word behind this text in the job's log, once it is there."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with open(self.path("log")) as opened:
                log = opened.read()
            if text in log:
                return log.split(text)[1].split()[0]
            if self.job.poll() is not None:
                break
            time.sleep(0.05)
        self.fail(f"the job does not log {text!r}:\n{log}")

    def tokens(self):
        for name, token in TOKENS.items():
            self.write(name, token + "\n")
        return ["--endpoint-token-file", self.path("watch"),
                "--endpoint-control-token-file", self.path("control")]


class LiveJob(Folder):
    def test_events_are_dicts_of_each_step(self):
        steps = []
        with troupe_engine.events(self.start(), ops=True) as stream:
            for event in stream:
                if event["event"] == "step":
                    steps.append(event["source"]["step"])
                    self.assertGreater(event["losses"][0][1], 0)
                if len(steps) == 3:
                    break
        self.assertEqual(steps, list(range(steps[0], steps[0] + 3)))

    def test_tensors_are_chosen_by_name(self):
        for event in troupe_engine.events(
                self.start(), tensors="gradient", names="blocks.0.*", steps=False):
            names = {each["name"] for each in event["tensors"]} if "tensors" in event \
                else set()
            if names:
                break
        self.assertTrue(all(name.startswith("blocks.0.") for name in names), names)

    def test_a_stream_ends_with_the_run(self):
        stream = troupe_engine.events(self.start())
        next(stream)
        self.job.terminate()
        for _ in stream:
            pass
        self.assertEqual(stream.ended["type"], "ended")
        self.assertRaises(StopIteration, next, stream)

    def test_a_monitor_finds_something(self):
        job = troupe_engine.Job(self.start())
        with job.attach("gap:every=1,match=blocks.0.*") as found:
            metrics = next(each for each in found if each["type"] == "metrics")
            self.assertTrue(any(name[0].startswith("gap/") for name in
                                metrics["values"]))
            self.assertEqual([each["spec"] for each in job.monitors()],
                             ["gap:every=1,match=blocks.0.*"])
        self.wait_for(lambda: job.monitors() == [])

    def test_a_monitor_that_is_kept_stays(self):
        job = troupe_engine.Job(self.start())
        kept = job.keep("stability")
        self.assertEqual([each["id"] for each in job.monitors()], [kept.id])
        job.detach(kept)
        self.assertEqual(job.monitors(), [])

    def test_another_thread_ends_a_stream(self):
        stream = troupe_engine.attach(self.start(), "stability")
        threading.Timer(0.5, stream.close).start()
        for _ in stream:
            pass
        self.assertIsNone(stream.ended)

    def test_health_plan_and_replan(self):
        job = troupe_engine.Job(self.start())
        self.assertEqual(job.health()["ranks"], 2)
        self.assertIn("rank", job.plan())
        self.assertTrue(job.replan("gpipe", force=True)["taken"])

    def test_a_refusal_is_told(self):
        job = troupe_engine.Job(self.start())
        with self.assertRaisesRegex(troupe_engine.RefusedError, "overflo") as caught:
            job.attach("overflo")
        self.assertEqual(caught.exception.status, 400)
        with self.assertRaisesRegex(troupe_engine.RefusedError, "colour"):
            job.events(colour="red")

    def start_healing(self):
        return self.start("--heal", "--validation-fraction", "0",
                          launch=["launch", "--processes", "2", "--"])

    def events_of_a_lost_job(self):
        """Of a job that heals, of which all processes are killed."""
        job = troupe_engine.Job(self.start_healing())
        events = job.events()
        next(events)
        self.job.send_signal(signal.SIGSTOP)  # the launcher starts none again
        for each in job.request("GET", "/ranks")["members"]:
            os.kill(each["pid"], signal.SIGKILL)
        self.job.kill()
        return events

    def test_streams_go_on_when_the_leader_is_killed(self):
        job = troupe_engine.Job(self.start_healing())
        numbers = []
        with job.events(ops=True) as events, job.attach("throughput") as found:
            def go_on(steps):
                until = len(numbers) + steps
                while len(numbers) < until:
                    event = next(events)
                    if event["event"] == "step":
                        numbers.append(event["source"]["step"])
            go_on(5)
            before = next(each for each in found if each["type"] == "metrics")
            leader = job.health()["pid"]
            os.kill(leader, signal.SIGKILL)
            go_on(100)
            self.assertNotEqual(job.health()["pid"], leader)
            last = numbers[-1]
            after = next(each for each in found if each["type"] == "metrics"
                         and each["source"]["step"] >= last)
            self.assertGreater(after["source"]["step"], before["source"]["step"])
            self.job.send_signal(signal.SIGINT)
            for _ in events:
                pass
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(events.ended["type"], "ended")

    def test_a_stream_that_waits_for_a_process_can_be_closed(self):
        events = self.events_of_a_lost_job()
        threading.Timer(1, events.close).start()
        for _ in events:
            pass
        self.assertIsNone(events.ended)

    def test_a_job_that_nobody_leads_any_more_is_an_error(self):
        events = self.events_of_a_lost_job()
        with mock.patch.object(troupe_engine.stream, "_PATIENCE", 0.2):
            with self.assertRaisesRegex(troupe_engine.JobError, "no process has led"):
                for _ in events:
                    pass

    def test_a_job_that_fails_is_an_error(self):
        job = troupe_engine.Job(self.start(launch=["launch", "--processes", "2", "--"]))
        events = job.events()
        next(events)
        launcher = self.job.pid
        with open(f"/proc/{launcher}/task/{launcher}/children") as opened:
            processes = {int(each) for each in opened.read().split()}
        os.kill((processes - {job.health()["pid"]}).pop(), signal.SIGKILL)
        with self.assertRaisesRegex(troupe_engine.JobError,
                                    r"the job has failed: .*process 1"):
            for _ in events:
                pass

    def wait_for(self, condition):
        until = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)


class Repeated(unittest.TestCase):
    def test_lines_are_told_from_those_of_repeated_steps(self):
        def line(kind, step, **more):
            return {"type": kind, "source": {"step": step, "phase": "training"}, **more}

        def event(kind, step):
            return line("event", step, event=kind)
        lines = RepeatedLines()
        for each in [event("step", 1), event("step", 2), event("memory", 3)]:
            self.assertFalse(lines.note(each))
        lines.repeat()
        for each, repeated in [
                (event("memory", 2), True), (event("step", 2), True),
                (event("epoch", 2), False), (event("memory", 3), False)]:
            self.assertEqual(lines.note(each), repeated, each)

        found = RepeatedLines()
        for each in [line("metrics", 2, values=[1]), line("alert", 2, text="one")]:
            self.assertFalse(found.note(each))
        found.repeat()
        for each, repeated in [
                (line("metrics", 1, values=[3]), True), (line("metrics", 2), True),
                (line("alert", 2, text="one"), True),
                (line("alert", 2, text="other"), False), (line("metrics", 3), False),
                ({"type": "printed", "text": "a report"}, False)]:
            self.assertEqual(found.note(each), repeated, each)


class Addresses(Folder):
    def test_the_only_job_is_found(self):
        os.environ["XDG_RUNTIME_DIR"] = self.folder
        self.addCleanup(os.environ.pop, "XDG_RUNTIME_DIR")
        with self.assertRaisesRegex(troupe_engine.AddressError, "none of your jobs"):
            troupe_engine.events()
        address = self.start(endpoint="")
        self.assertEqual(troupe_engine.own_jobs(), [address])
        self.assertEqual(troupe_engine.Job().address, address)

    def test_a_socket_asks_for_its_token(self):
        address = self.start(*self.tokens())
        with self.assertRaises(troupe_engine.RefusedError) as caught:
            troupe_engine.events(address)
        self.assertEqual(caught.exception.status, 401)
        job = troupe_engine.Job(address, self.path("watch"))
        self.assertEqual(next(job.events())["type"], "event")
        with self.assertRaises(troupe_engine.RefusedError) as caught:
            job.keep("stability")
        self.assertEqual(caught.exception.status, 403)
        troupe_engine.Job(address, self.path("control")).keep("stability")

    def test_tcp_is_encrypted_by_the_token(self):
        address = self.start(*self.tokens(), endpoint="tcp:127.0.0.1:0")
        with self.assertRaisesRegex(troupe_engine.JobError, "needs a token"):
            troupe_engine.events(address)
        if not HAS_KEYS_OF_TLS:
            with self.assertRaisesRegex(troupe_engine.UnsupportedError, "ssh -L"):
                troupe_engine.events(address, token_file=self.path("watch"))
            return
        events = troupe_engine.events(address, token_file=self.path("watch"))
        self.assertEqual(next(events)["type"], "event")
        self.write("other", "o" * 32)
        with self.assertRaisesRegex(troupe_engine.JobError, "did not let"):
            troupe_engine.events(address, token_file=self.path("other"))

    def test_a_page_shows_events_to_a_token(self):
        self.start(*self.tokens(), "--dashboard", "0")
        page = self.logged("dashboard: ")
        events = troupe_engine.events(page, token_file=self.path("watch"))
        self.assertEqual(next(events)["type"], "event")

    def test_wrong_addresses_are_refused(self):
        for address, why in [("job.sock", "begins with none"), ("unix:", "107 bytes"),
                             ("tcp:host", "port is missing"),
                             ("tcp:host:99999", "0 to 65535"),
                             ("http://host.example:80", "this machine only")]:
            with self.assertRaisesRegex(troupe_engine.AddressError, why):
                troupe_engine.events(address)
        with self.assertRaisesRegex(troupe_engine.JobError, "still running"):
            troupe_engine.events("unix:" + self.path("none.sock"))

    def test_tokens_are_private_and_one_word(self):
        for name, text, mode, why in [
                ("open", "x" * 32, 0o644, "chmod 600"),
                ("two", "x" * 20 + " " + "y" * 20, 0o600, "one word"),
                ("short", "x" * 5, 0o600, "at least 16")]:
            with self.assertRaisesRegex(troupe_engine.AddressError, why):
                places.read_token(self.write(name, text, mode))
        self.assertEqual(places.read_token(self.write("good", " " + "x" * 16 + "\n")),
                         "x" * 16)


class Files(Folder):
    def train(self):
        self.start("--log-json", "run.jsonl", "--sink", "csv:all.csv", "--sink",
                   "json:sink.jsonl", "--trace", "trace.json", "--monitor",
                   "gap:every=2,match=blocks.0.*", "--eval-every", "3", steps=6)
        self.assertEqual(self.job.wait(60), 0)

    def test_metrics_and_timelines_are_arrays(self):
        self.train()
        run = troupe_engine.read_run(self.folder)
        loss = run.metrics["train/loss"]
        self.assertEqual(loss.steps.tolist(), [1, 2, 3, 4, 5, 6])
        self.assertEqual(loss.values.dtype, numpy.float64)
        self.assertEqual(run.metrics["validation/loss"].steps.tolist(), [3, 6])
        for name in "train/bubble", "train/grad_norm", "train/tokens_per_second":
            self.assertEqual(len(run.metrics[name]), 6, name)
        self.assertTrue(any(name.startswith("gap/") for name in run.metrics))
        ops = run.timelines["trace.json"]
        forwards = ops[(ops["type"] == "forward") & (ops["category"] == "compute")]
        self.assertEqual(len(forwards), 6 * 2 * 2)
        self.assertEqual(set(forwards["rank"].tolist()), {0, 1})
        self.assertTrue((forwards["duration_us"] > 0).all())

    def test_files_that_agree_give_the_same_values(self):
        self.train()
        one, other = (troupe_engine.read_run(self.path(name)).metrics["train/loss"]
                      for name in ("run.jsonl", "all.csv"))
        self.assertEqual(one.values.tolist(), other.values.tolist())

    def test_a_line_being_written_is_left_out(self):
        line = json.dumps({"step": 1, "phase": "training", "loss": "NaN",
                           "metrics": {"train/loss": "NaN"}})
        self.write("run.jsonl", line + "\n" + line.replace("1", "2", 1)[:40])
        loss = troupe_engine.read_run(self.folder).metrics["train/loss"]
        self.assertEqual(loss.steps.tolist(), [1])
        self.assertTrue(numpy.isnan(loss.values[0]))

    def test_other_files_are_refused(self):
        with self.assertRaisesRegex(troupe_engine.RunFileError, "--log-json"):
            troupe_engine.read_run(self.folder)
        with self.assertRaisesRegex(troupe_engine.RunFileError, "No such file"):
            troupe_engine.read_run(self.path("none"))
        self.write("run.jsonl", '{"step": 1, "phase": 3}\n')
        with self.assertRaisesRegex(troupe_engine.RunFileError, "run.jsonl:1"):
            troupe_engine.read_run(self.folder)


class Notebook(Folder):
    def test_its_code_runs_while_a_job_trains(self):
        """With stubs of what draws."""
        with open(os.path.join(ROOT, "docs/notebooks/watch_a_job.ipynb")) as opened:
            notebook = json.load(opened)
        cells = [each for each in notebook["cells"] if each["cell_type"] == "code"]
        self.assertTrue(all(each["outputs"] == [] for each in cells))
        code = "\n".join("".join(each["source"]) for each in cells)
        os.mkdir(self.path("logs"))
        address = self.start("--log-json", "logs/run.jsonl")
        code = code.replace("Job()", f"Job({address!r})").replace(
            "seconds = 60", "seconds = 3").replace('"logs"', repr(self.path("logs")))
        plots = mock.MagicMock()
        plots.subplots.return_value = mock.MagicMock(), mock.MagicMock()
        stubs = {"matplotlib": mock.MagicMock(pyplot=plots),
                 "matplotlib.pyplot": plots, "IPython": mock.MagicMock(),
                 "IPython.display": mock.MagicMock()}
        names = {}
        with mock.patch.dict(sys.modules, stubs), mock.patch("builtins.print"):
            exec(code, names)
        for name, points in names["curves"].items():
            self.assertGreater(len(points), 1, name)


if __name__ == "__main__":
    warnings.simplefilter("error", ResourceWarning)
    unittest.main()
