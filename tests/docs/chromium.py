"""A headless Chromium, which reaches this machine alone."""
import json
import os
import select
import shutil
import subprocess
import time

COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


def found():
    """The program: $TROUPE_CHROMIUM, or what is installed; None without one."""
    names = [os.environ.get("TROUPE_CHROMIUM"), "chromium", "chromium-browser",
             "google-chrome"]
    return next((name for name in names if name and shutil.which(name)), None)


class Browser:
    """Driven by the DevTools protocol, over a pipe: JSON that ends with a zero byte."""

    def __init__(self, program, profile, seconds=300):
        theirs, self.commands = os.pipe()
        self.answers, written = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{theirs} 4>&{written}', program,
             "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
             "--remote-debugging-pipe",
             f"--user-data-dir={profile}"],
            pass_fds=(theirs, written), stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(written)
        self.seconds, self.last, self.unread = seconds, 0, b""
        self.session, self.complaints, self.loaded = None, [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(self.seconds)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.commands, rest):]
        while (answer := self.receive()).get("id") != self.last:
            self.notice(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def receive(self):
        deadline = time.monotonic() + self.seconds
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.answers], [], [],
                                        deadline - time.monotonic())
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser ended or does not answer")
            self.unread += part
        line, _, self.unread = self.unread.partition(b"\0")
        return json.loads(line)

    def notice(self, event):
        if event["method"] in COMPLAINTS:
            self.complaints.append(json.dumps(event["params"])[:300])
        self.loaded = self.loaded or event["method"] == "Page.loadEventFired"

    def before_each_page(self, script):
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def look(self, width, theme):
        """As wide as a phone or a desk's screen; theme is light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, address):
        self.loaded, self.complaints = False, []
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self.notice(self.receive())

    def value(self, expression):
        """Of JavaScript; of a promise, once it is kept."""
        result = self.call("Runtime.evaluate", expression=expression,
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}"[:500])
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + self.seconds
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"never true: {expression}")
            time.sleep(0.05)
