"""Debian's chromium without a window, by its debugging protocol over a pipe."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")


class Browser:
    """One page. `requests`: the URLs that it asked for; `complaints`: errors and warnings of its console."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="rdc")
        to_it, self.write = os.pipe()
        self.read, from_it = os.pipe()

        def place():
            os.dup2(to_it, 103), os.dup2(from_it, 104)
            os.dup2(103, 3), os.dup2(104, 4)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--js-flags=--expose-gc",
                 f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen([PROGRAM, *flags], preexec_fn=place, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it), os.close(from_it)
        self.buffer, self.last, self.replies, self.requests, self.complaints, self.session = b"", 0, {}, [], [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.look(1000, False)

    def look(self, width, dark):
        """Set the window's width, and whether the user prefers dark pages."""
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path, most_height=4000, quality=60):
        """The page from its top, as PNG or WebP by the name of the file."""
        kind = path.suffix[1:]
        height = self.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(height, most_height), "scale": 1}
        loss = {} if kind == "png" else {"quality": quality}
        shot = self.call("Page.captureScreenshot", format=kind, captureBeyondViewport=True, clip=clip, **loss)
        path.write_bytes(base64.b64decode(shot["data"]))

    def take(self, message):
        method, params = message.get("method"), message.get("params", {})
        if "id" in message:
            self.replies[message["id"]] = message
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["exception"].get("description", "?"))

    def more(self, seconds=60):
        assert select.select([self.read], [], [], seconds)[0], "the browser says nothing"
        data = os.read(self.read, 1 << 20)
        assert data, "the browser has gone"
        *whole, self.buffer = (self.buffer + data).split(b"\0")
        for message in whole:
            self.take(json.loads(message))

    def call(self, method, **params):
        self.last += 1
        number = self.last
        os.write(self.write, json.dumps({"id": number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}).encode() + b"\0")
        while number not in self.replies:
            self.more()
        reply = self.replies.pop(number)
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def evaluate(self, script):
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def until(self, script, seconds=60):
        """The script's value, once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            assert time.monotonic() < end, f"never {script}; complaints: {self.complaints}"
        return value

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read), os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)
